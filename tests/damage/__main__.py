"""`python -m tests.damage FOLDER CASE...` writes damaged copies of the model; the engine's Python runs it."""

import argparse
import copy
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.damage.model import ModelCopy
from tests.damage.table import damage_of, draw_of

SOUND = Path(__file__).parents[2] / "demo/model"


def loaded(folder: Path, case: str) -> ModelCopy:
    """Read a model; what is drawn and what is random follow from the case."""
    draw = draw_of(case)
    torch.manual_seed(draw.randrange(2**32))
    files = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    config, generation, tokenizer, tokenizer_config = (json.loads((folder / name).read_text()) for name in files)
    return ModelCopy(
        weights=copy.deepcopy(load_file(folder / "model.safetensors")),
        config=config,
        generation=generation,
        tokenizer=tokenizer,
        tokenizer_config=tokenizer_config,
        template=(folder / "chat_template.jinja").read_text(),
        draw=draw,
        torch=torch,
    )


def saved(model: ModelCopy, folder: Path) -> None:
    """Write a model."""
    folder.mkdir(parents=True)
    texts = {
        "config.json": model.config,
        "generation_config.json": model.generation,
        "tokenizer.json": model.tokenizer,
        "tokenizer_config.json": model.tokenizer_config,
    }
    for name, table in texts.items():
        (folder / name).write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")
    (folder / "chat_template.jinja").write_text(model.template)
    weights = folder / "model.safetensors"
    tensors = {name: weight.contiguous() for name, weight in model.weights.items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    if model.kept < 1:
        content = weights.read_bytes()
        weights.write_bytes(content[: int(len(content) * model.kept)])


def main() -> None:
    """Write each case into a folder of its number; print a line of JSON for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="+", metavar="CASE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for number, case in enumerate(options.cases):
        model = loaded(SOUND, case)
        detail = damage_of(case).make(model)
        saved(model, options.folder / str(number))
        print(json.dumps({"case": case, "folder": str(options.folder / str(number)), "detail": detail}), flush=True)


if __name__ == "__main__":
    main()
