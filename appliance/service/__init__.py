"""The supervisor: signals, systemd, the journal and the processes."""
