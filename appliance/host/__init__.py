"""Readers of the machine, each below a root folder."""
