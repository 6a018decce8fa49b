"""What a root's apt is told of the host's."""

from pathlib import Path

from tests.system.apt_source import AptSource, files_in, settings_in, sources_in
from tests.system.root import Recipe

LISTING = """\
Debian|bookworm|http://mirror.example/debian/|main
Debian|bookworm|http://mirror.example/debian/|contrib
Debian|bookworm|http://second.example/debian/|main
Debian|bookworm-security|https://mirror.example/security/|main
Debian|bookworm-backports|http://mirror.example/debian/|main
Debian|trixie|http://mirror.example/debian/|main
Debian|bookworm-updates|file:/srv/debian/|main
Other|bookworm|http://other.example/debian/|main
$(ORIGIN)|$(CODENAME)|http://never.updated/debian/|main
"""


def test_of_debians_archives_those_of_the_suite_are_taken_one_of_each() -> None:
    assert sources_in(LISTING, "bookworm") == (
        AptSource("http://mirror.example/debian/", "bookworm", ("contrib", "main")),
        AptSource("https://mirror.example/security/", "bookworm-security", ("main",)),
    )


def test_a_host_of_another_release_has_no_source() -> None:
    assert sources_in(LISTING, "forky") == ()


def test_settings_of_the_host_alone_and_empty_ones_are_left_out() -> None:
    dump = (
        'Acquire "";\nAcquire::cdrom::mount "/media/cdrom/";\nAcquire::Languages:: "none";\n'
        'Acquire::http::Proxy "http://own:1";\nAcquire::CompressionTypes::xz "xz";\n'
    )
    assert settings_in(dump, {"http_proxy": "http://general:1"}) == (
        'Acquire::Languages:: "none";',
        'Acquire::http::Proxy "http://own:1";',
    )


def test_files_of_certificates_are_found_for_one_host_too() -> None:
    settings = ['Acquire::https::mirror.example::SslCert "/company/me.pem";']
    assert files_in(settings) == (Path("/company/me.pem"),)


def test_without_sources_the_tools_defaults_apply() -> None:
    recipe = Recipe(suite="bookworm", sources=(), settings=(), keyring=None)
    assert recipe.argv(Path("/target"))[-2:] == ["bookworm", "/target"]


def test_another_recipe_has_another_folder() -> None:
    source = AptSource("http://mirror.example/debian/", "bookworm", ("main",))
    plain = Recipe(suite="bookworm", sources=(source,), settings=(), keyring=None)
    signed = Recipe(suite="bookworm", sources=(source,), settings=(), keyring=Path("/keyring"))
    assert plain.folder_name() != signed.folder_name()
    assert plain.folder_name().startswith("bookworm-")
