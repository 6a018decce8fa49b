"""Questions to a running model and the judgement of its answers."""
