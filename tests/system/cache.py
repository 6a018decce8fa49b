"""Where things that take long to make are kept between runs."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the cache, which need not exist yet.

    >>> cache_folder({"XDG_CACHE_HOME": "/srv/cache"})
    PosixPath('/srv/cache/vllm-serve')
    """
    own = environ.get("VLLM_SERVE_CACHE")
    if own:
        return Path(own).absolute()
    general = environ.get("XDG_CACHE_HOME")
    return (Path(general) if general else Path("~/.cache").expanduser()) / "vllm-serve"
