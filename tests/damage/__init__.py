"""Damaged copies of the demonstration model, and servers that spoil its answers: what the self-test must see."""
