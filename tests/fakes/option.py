"""The command line of the fake engine, as far as it minds it."""

import argparse
import os


class Options(argparse.Namespace):
    """What it was started with."""

    model: str = "model"
    host: str | None = None
    port: int = 8000
    served_model_name: list[str]
    api_key: list[str]
    max_model_len: int = 1024
    tool_call_parser: str | None = None
    enable_auto_tool_choice: bool = False
    disable_log_stats: bool = False

    @property
    def names(self) -> list[str]:
        return self.served_model_name or [self.model]


OPTIONS = Options(served_model_name=[], api_key=[])


def read_options(words: list[str]) -> None:
    """Read the command line into OPTIONS; what vLLM knows and this does not, is passed over."""
    parser = argparse.ArgumentParser(prog="vllm serve", argument_default=argparse.SUPPRESS)
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name", nargs="+", action="extend")
    parser.add_argument("--api-key", nargs="+", action="extend")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--tool-call-parser")
    parser.add_argument("--enable-auto-tool-choice", action="store_true")
    parser.add_argument("--disable-log-stats", action="store_true")
    parser.parse_known_args(words, OPTIONS)
    if not OPTIONS.api_key and os.environ.get("VLLM_API_KEY"):
        OPTIONS.api_key = [os.environ["VLLM_API_KEY"]]
