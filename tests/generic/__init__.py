"""The recipe `generic` for fifteen checkpoints on six machines, and what is expected of each."""
