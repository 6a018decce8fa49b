"""Locks on files and folders that end with the process that holds them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BusyError(Exception):
    """Another process holds the lock."""


@contextmanager
def held(folder: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a folder.

    Raises BusyError where another process holds one that excludes it and WAIT is false.
    """
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            raise BusyError(f"another process uses {folder}") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Hold a file that has this process's id in it, and remove it at the end.

    Raises BusyError where another process holds it; the file of one that died is taken over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(path)
    try:
        path.write_text(f"{os.getpid()}\n")
        yield
    finally:
        path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode().strip()
            os.close(descriptor)
            raise BusyError(f"process {holder or 'unknown'} holds {path}") from None
        if _is(path, descriptor):
            return descriptor
        os.close(descriptor)  # its holder removed it between our two calls


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
