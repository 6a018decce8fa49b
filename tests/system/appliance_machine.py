"""A machine with the package installed and the cache's engine in its place."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.bind import Bind
from tests.system.host import host_binds
from tests.system.machine import Machine, Network

ENGINES = Path("/var/lib/vllm-serve/engines")
DOWNLOADS = Path("/var/cache/vllm-serve/pip")


def kept_binds(cache: Path) -> tuple[Bind, ...]:
    """Return the mounts that keep the installed engine and pip's downloads between runs."""
    binds = []
    for source, target in ((cache / "engines", ENGINES), (cache / "downloads", DOWNLOADS)):
        source.mkdir(parents=True, exist_ok=True)
        binds.append(Bind(source=source, target=target, writable=True))
    return tuple(binds)


@contextmanager
def appliance_machine(
    debian: Path, package: Path, cache: Path, network: Network, *, engine: bool = True
) -> Iterator[Machine]:
    """Boot a machine and install the package there with apt; without `engine` none is in place."""
    kept = kept_binds(cache) if engine else ()
    binds = (Bind(source=package, target=Path("/mnt") / package.name), *host_binds(cache), *kept)
    with Machine.boot(debian, f"appliance-{network}", binds=binds, network=network, cache=cache) as machine:
        machine.run(f"apt-get install -y -qq --no-install-recommends /mnt/{package.name}", timeout=300)
        yield machine
