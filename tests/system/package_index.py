"""Where the host's pip gets packages from, and how, as the pip of a machine needs to know it."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
ENVIRONMENT = ":env:"
PLACES = ("index-url", "extra-index-url", "find-links")
CARRIED = (
    *PLACES,
    "no-index",
    "trusted-host",
    "proxy",
    "cert",
    "client-cert",
    "timeout",
    "default-timeout",
    "retries",
    "disable-pip-version-check",
)


@dataclass(frozen=True, slots=True)
class PipSetting:
    """One line of a pip.conf."""

    section: str
    key: str
    value: str


def settings_in(listing: str) -> tuple[PipSetting, ...]:
    r"""Return what `pip config list` says about how to reach packages, the effective values only.

    >>> settings_in(":env:.cert='/ca.pem'\nglobal.cert='/old'\nglobal.constraint='/c.txt'")
    (PipSetting(section='global', key='cert', value='/ca.pem'),)
    """
    found: dict[tuple[str, str], str] = {}
    for line in listing.splitlines():
        name, equals, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if equals and key in CARRIED:
            found[section, key] = " ".join(str(ast.literal_eval(value)).split())
    stronger = {key: value for (section, key), value in found.items() if section == ENVIRONMENT}
    kept = {place: value for place, value in found.items() if place[1] not in stronger}
    kept |= {("global", key): value for key, value in stronger.items()}
    return tuple(PipSetting(*place, value) for place, value in sorted(kept.items()))


def pip_conf(settings: Iterable[PipSetting], environ: Mapping[str, str]) -> str:
    """Return the text of a machine's /etc/pip.conf, where certificates lie in Debian's own place.

    >>> print(pip_conf([PipSetting("global", "retries", "3")], {"https_proxy": "http://p:1"}))
    [global]
    cert = /etc/ssl/certs/ca-certificates.crt
    proxy = http://p:1
    retries = 3
    <BLANKLINE>
    """
    sections: dict[str, dict[str, str]] = {"global": {}}
    proxy = environ.get("https_proxy") or environ.get("http_proxy")
    if proxy:
        sections["global"]["proxy"] = proxy
    for setting in settings:
        sections.setdefault(setting.section, {})[setting.key] = setting.value
    for section in sections.values():
        section.pop("cert", None)
    sections["global"]["cert"] = str(CERTIFICATES)
    lines: list[str] = []
    for name, section in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in sorted(section.items())), ""]
    return "\n".join(lines)


def folders_in(settings: Iterable[PipSetting]) -> tuple[Path, ...]:
    """Return the folders of the host that the settings lead to, none inside of another.

    The pages of an index link to files beside its folder, so of an index it is the folder above.

    >>> folders_in([PipSetting("global", "extra-index-url", "file:///srv/pypi/simple https://x/")])
    (PosixPath('/srv/pypi'),)
    """
    found: set[Path] = set()
    for setting in settings:
        if setting.key in PLACES:
            for place in setting.value.split():
                path = _local(place)
                if path is not None:
                    found.add(path if _holds_files(setting.key, path) else path.parent)
    return tuple(sorted(path for path in found if not found & set(path.parents)))


def files_in(settings: Iterable[PipSetting]) -> tuple[Path, ...]:
    """Return the files that the settings name, save the certificates of `cert`."""
    return tuple(Path(setting.value) for setting in settings if setting.key == "client-cert")


def certificates_in(settings: Iterable[PipSetting], environ: Mapping[str, str]) -> Path:
    """Return the file of the certificates that the host trusts."""
    named = next((setting.value for setting in settings if setting.key == "cert"), None)
    return Path(named or environ.get("SSL_CERT_FILE") or CERTIFICATES)


def host_settings() -> tuple[PipSetting, ...]:
    """Return the settings of the host's pip; none where it has none."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-m", "pip", "config", "list"]
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        if result.returncode == 0:
            return settings_in(result.stdout)
    return ()


def host_certificates(settings: Iterable[PipSetting]) -> Path:
    """Return the file of the certificates that the host trusts."""
    return certificates_in(settings, os.environ)


def _local(place: str) -> Path | None:
    parts = urlsplit(place)
    path = Path(unquote(parts.path) if parts.scheme == "file" else place)
    return path if parts.scheme in ("", "file") and path.is_absolute() else None


def _holds_files(key: str, path: Path) -> bool:
    if path.parent == Path("/"):  # never the whole host
        return True
    return key == "find-links" and path.suffix not in (".html", ".htm")
