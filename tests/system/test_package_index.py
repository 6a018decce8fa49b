"""What a machine's pip is told of the host's."""

from pathlib import Path

from tests.system.package_index import (
    PipSetting,
    certificates_in,
    files_in,
    folders_in,
    pip_conf,
    settings_in,
)

LISTING = """\
:env:.cert='/company/ca.pem'
:env:.find-links='/srv/wheels /srv/more'
global.constraint='/srv/constraints.txt'
global.cert='/old/ca.pem'
global.extra-index-url='\\nhttps://index.example/simple\\nfile:///srv/index/simple/'
global.client-cert='/company/me.pem'
install.find-links='/elsewhere'
install.no-index='false'
list.format='json'
"""


def found(**values: str) -> list[PipSetting]:
    return [PipSetting("global", key.replace("_", "-"), value) for key, value in values.items()]


def test_the_environment_wins_and_what_does_not_reach_packages_is_left_out() -> None:
    assert settings_in(LISTING) == (
        PipSetting("global", "cert", "/company/ca.pem"),
        PipSetting("global", "client-cert", "/company/me.pem"),
        PipSetting("global", "extra-index-url", "https://index.example/simple file:///srv/index/simple/"),
        PipSetting("global", "find-links", "/srv/wheels /srv/more"),
        PipSetting("install", "no-index", "false"),
    )


def test_a_warning_among_the_settings_is_passed_over() -> None:
    assert settings_in("WARNING: pip is old\nglobal.timeout='9'") == tuple(found(timeout="9"))


def test_the_conf_has_the_certificates_in_debians_place_whatever_the_hosts_is() -> None:
    assert pip_conf([*found(cert="/company/ca.pem"), PipSetting("install", "retries", "9")], {}) == (
        "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n\n[install]\nretries = 9\n"
    )


def test_a_proxy_of_pips_own_wins_over_the_environments() -> None:
    environ = {"https_proxy": "http://general:1", "http_proxy": "http://plain:1"}
    assert "proxy = http://general:1\n" in pip_conf([], environ)
    assert "proxy = http://own:1\n" in pip_conf(found(proxy="http://own:1"), environ)


def test_the_folder_above_an_index_is_shown_but_of_wheels_their_own() -> None:
    settings = found(index_url="file:///srv/my%20index/simple", find_links="/srv/wheels file:///srv/links.html")
    assert folders_in(settings) == (Path("/srv"),)
    settings = found(index_url="file:///srv/my%20index/simple", find_links="/srv/wheels")
    assert folders_in(settings) == (Path("/srv/my index"), Path("/srv/wheels"))


def test_a_remote_or_relative_place_shows_no_folder() -> None:
    assert folders_in(found(index_url="https://x/simple", find_links="wheels https://x/l")) == ()


def test_the_whole_host_is_never_shown() -> None:
    assert folders_in(found(index_url="file:///simple")) == (Path("/simple"),)


def test_the_certificates_are_pips_or_the_environments_or_debians() -> None:
    environ = {"SSL_CERT_FILE": "/general/ca.pem"}
    assert certificates_in(found(cert="/own/ca.pem"), environ) == Path("/own/ca.pem")
    assert certificates_in([], environ) == Path("/general/ca.pem")
    assert certificates_in([], {}) == Path("/etc/ssl/certs/ca-certificates.crt")


def test_a_client_certificate_is_shown() -> None:
    assert files_in(found(client_cert="/company/me.pem")) == (Path("/company/me.pem"),)
