"""Where the host's apt gets Debian from, and how, as a root of Debian needs to know it."""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ARCHIVE_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FIELDS = ("ORIGIN", "CODENAME", "REPO_URI", "COMPONENT")
OF_THE_HOST_ALONE = (
    "Acquire::IndexTargets",
    "Acquire::Changelogs",
    "Acquire::CompressionTypes",
    "Acquire::cdrom",
)


@dataclass(frozen=True, slots=True, order=True)
class AptSource:
    """One archive of Debian: a line of sources.list."""

    uri: str
    codename: str
    components: tuple[str, ...]

    def line(self, keyring: Path | None) -> str:
        """Return the line of sources.list, for packages signed by a key of the keyring.

        >>> AptSource("http://mirror/debian/", "bookworm", ("main", "contrib")).line(None)
        'deb http://mirror/debian/ bookworm main contrib'
        """
        option = f"[signed-by={keyring}] " if keyring else ""
        return f"deb {option}{self.uri} {self.codename} {' '.join(self.components)}"


def sources_in(listing: str, suite: str) -> tuple[AptSource, ...]:
    """Return the archives of SUITE, its updates and its security updates, of one mirror each.

    LISTING has the FIELDS of one index a line, with "|" between them. An archive that does not
    call itself Debian's (known only after `apt-get update`) or is not reached by HTTP is left out.
    """
    wanted = {suite, f"{suite}-updates", f"{suite}-security"}
    components: dict[tuple[str, str], set[str]] = {}
    for line in listing.splitlines():
        origin, codename, uri, component = line.split("|")
        if origin == "Debian" and codename in wanted and re.match("https?://", uri):
            components.setdefault((codename, uri), set()).add(component)
    first: dict[str, AptSource] = {}
    for (codename, uri), names in components.items():
        first.setdefault(codename, AptSource(uri, codename, tuple(sorted(names))))
    return tuple(sorted(first.values()))


def settings_in(dump: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    r"""Return the settings about how to reach an archive, one a line of apt.conf.

    DUMP is what `apt-config dump Acquire` prints; a proxy may also stand in the environment.

    >>> settings_in('Acquire "";\nAcquire::Check-Date "false";', {"http_proxy": "http://p:3128"})
    ('Acquire::Check-Date "false";', 'Acquire::http::Proxy "http://p:3128";')
    """
    lines = [line for line in dump.splitlines() if not line.startswith(OF_THE_HOST_ALONE) and not line.endswith(' "";')]
    for scheme in ("http", "https"):
        key = f"Acquire::{scheme}::Proxy"
        proxy = environ.get(f"{scheme}_proxy")
        if proxy and not any(line.startswith(f"{key} ") for line in lines):
            lines.append(f'{key} "{proxy}";')
    return tuple(lines)


def files_in(settings: Iterable[str]) -> tuple[Path, ...]:
    """Return the files of certificates and keys that the settings name.

    >>> files_in(['Acquire::https::CAInfo "/srv/ca.pem";', 'Acquire::Retries "3";'])
    (PosixPath('/srv/ca.pem'),)
    """
    pattern = re.compile(r'.*::(?:CAInfo|CAPath|SslCert|SslKey) "(/.*)";')
    return tuple(Path(match[1]) for match in map(pattern.fullmatch, settings) if match)


def host_sources(suite: str) -> tuple[AptSource, ...]:
    """Return the archives of SUITE that the host uses; none where it is of another release."""
    fields = "|".join(f"$({field})" for field in FIELDS)
    command = ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"]
    return sources_in(_output(command), suite)


def host_settings() -> tuple[str, ...]:
    """Return the host's settings about how to reach an archive."""
    return settings_in(_output(["apt-config", "dump", "Acquire"]), os.environ)


def _output(command: list[str]) -> str:
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    return result.stdout
