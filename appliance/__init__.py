"""The vllm-serve appliance: one language model served by vLLM under systemd."""

__version__ = "0.1.0"
