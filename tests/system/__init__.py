"""Tests of the whole product on a Debian machine with real systemd, and that machine itself."""
