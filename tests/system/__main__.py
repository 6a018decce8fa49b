"""`python -m tests.system`: say loudly which part of `make test` could not run here; say nothing where all could."""

from tests.system.host import can_boot

NOT_RUN = """
****************************************************************
NOT RUN: the system tests (the package on a booted machine with
systemd, apt, the journal and logrotate), because no container
can be booted here:
    {reason}
****************************************************************"""

if reason := can_boot():
    print(NOT_RUN.format(reason=reason))
