"""Files in the tree that the code says already, and the way to write them anew: python -m tests.generated."""

from collections.abc import Mapping
from pathlib import Path

from appliance.core.manpage import with_keys
from appliance.core.sample import SHIPPED, sample
from appliance.core.schema import schema_text

ROOT = Path(__file__).resolve().parents[1]


def generated() -> Mapping[Path, str]:
    """Return what each generated file should hold."""
    page = ROOT / "man/vllm-serve.toml.5.md"
    return {
        ROOT / "docs/vllm-serve.schema.json": schema_text(),
        ROOT / "docs/vllm-serve.toml.sample": sample(),
        ROOT / "etc/vllm-serve.toml": SHIPPED,
        page: with_keys(page.read_text()),
    }


if __name__ == "__main__":
    for file, text in generated().items():
        file.write_text(text)
