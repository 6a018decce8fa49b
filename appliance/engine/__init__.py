"""The vLLM installation: making it, running it, talking to it."""
