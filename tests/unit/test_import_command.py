"""`vllm-serve import-env`: where it reads from, and that nothing is printed beside a refusal."""

import subprocess
import sys
from pathlib import Path

import tomli
from click.testing import CliRunner, Result

from appliance.cli.importenv import command
from appliance.core.problem import RefusedError

RTX3090X4 = "qwen38-flash-next/rtx3090x4"


def run(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(command, list(arguments), input=given)


def printed(*arguments: str, given: bytes = b"") -> dict[str, object]:
    result = run(*arguments, given=given)
    assert result.exit_code == 0
    return {name: value for name, value in tomli.loads(result.output).items() if name != "recipe"}


def refusal(*arguments: str, given: bytes = b"") -> str:
    result = run(*arguments, given=given)
    assert result.output == ""
    assert isinstance(result.exception, RefusedError)
    return str(result.exception)


def test_a_file_the_standard_input_and_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.env").write_bytes(b"\xef\xbb\xbfMAX_SEQS=8\r\n")
    assert printed(RTX3090X4, str(tmp_path / "x.env")) == {"vllm": {"max_num_seqs": 8}}
    assert printed(RTX3090X4, "-", given=b"MAX_SEQS=9") == {"vllm": {"max_num_seqs": 9}}
    assert printed(RTX3090X4, given=b"MAX_SEQS=9") == {}


def test_words_after_two_dashes_are_the_scripts() -> None:
    assert printed(RTX3090X4, "--", "--seed", "7") == {"engine": {"extra_args": ["--seed", "7"]}}
    assert printed(RTX3090X4, "-", "--", "/c", "--", "x", given=b"") == {
        "model": {"source": "/c"},
        "engine": {"extra_args": ["--", "x"]},
    }
    assert run(RTX3090X4, "-", "--seed", "7").exit_code == 2


def test_an_unknown_recipe_is_told_with_the_known_ones() -> None:
    result = run("rtx3090")
    assert result.exit_code == 2
    assert "no script is known for rtx3090; known here: qwen38-flash-next/rtx3090x4, glm53-flash/gx10" in result.output
    assert run().exit_code == 2


def test_problems_leave_the_output_empty(tmp_path: Path) -> None:
    told = refusal(RTX3090X4, "-", given=b"MAX_SEQS=x\nPORT=0\n").splitlines()
    assert [line.partition(", wants")[0] for line in told] == [
        'standard input:1: MAX_SEQS: found "x"',
        'standard input:2: PORT: found "0"',
    ]
    assert refusal(RTX3090X4, str(tmp_path / "none")) == f"{tmp_path}/none: can't be read: No such file or directory"
    assert refusal(RTX3090X4, str(tmp_path)) == f"{tmp_path}: is a folder, wants a file"
    assert refusal(RTX3090X4, "/dev/zero").startswith("/dev/zero: is no plain file")


def test_the_output_is_utf_8_whatever_the_terminal_takes() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from appliance.cli.importenv import command; command()", RTX3090X4, "-"],
        input="MODEL_NAME=\u4f60".encode(),
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii"},
        cwd=Path(__file__).parents[2],
    )
    assert tomli.loads(result.stdout.decode())["model"] == {"served_model_name": "\u4f60"}
