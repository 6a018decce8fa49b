"""`vllm-serve explain`: the last failure again, none, and a record that can't be read."""

import dataclasses
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

from click.testing import CliRunner, Result

from appliance.cli import explain
from appliance.service.failure import NAME, keep_failure
from tests.unit.test_failure import FAILURE


def run(*arguments: str | Path, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(explain.command, [str(argument) for argument in arguments], env=environment or {})


def test_no_failure_is_no_error(tmp_path: Path) -> None:
    result = run("--state", tmp_path)
    assert (result.exit_code, result.output) == (0, "no failure is on record\n")
    result = run("--state", tmp_path / "none", "--json")
    assert (result.exit_code, json.loads(result.output)) == (0, None)


def test_the_last_failure_is_told_with_its_remedy_and_its_lines(tmp_path: Path) -> None:
    keep_failure(tmp_path, FAILURE)
    result = run("--state", tmp_path)
    assert result.exit_code == 0
    for text in (FAILURE.time, FAILURE.phase, FAILURE.diagnosis.summary, FAILURE.diagnosis.id):
        assert text in result.output
    assert f"do:    {FAILURE.diagnosis.remedy}\n" in result.output
    assert f"said: {FAILURE.diagnosis.line}\n" in result.output
    assert f"    {FAILURE.diagnosis.lines[0]}\n" in result.output


def test_as_json_it_is_the_record(tmp_path: Path) -> None:
    keep_failure(tmp_path, FAILURE)
    result = run("--state", tmp_path, "--json")
    assert result.output == (tmp_path / NAME).read_text()
    assert json.loads(result.output)["diagnosis"]["id"] == FAILURE.diagnosis.id


def test_the_state_folder_of_the_unit_is_found_by_its_variable(tmp_path: Path) -> None:
    keep_failure(tmp_path, FAILURE)
    assert FAILURE.time in run(environment={"STATE_DIRECTORY": str(tmp_path)}).output


def test_a_damaged_record_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    result = run("--state", tmp_path)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {tmp_path / NAME} is damaged, or another version's: ")


def test_a_record_that_cant_be_read_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    result = run("--state", tmp_path)
    assert (result.exit_code, result.output) == (1, f"Error: {tmp_path / NAME} can't be read: Is a directory\n")


def test_whoever_may_not_read_it_is_told_who_may(tmp_path: Path) -> None:
    keep_failure(tmp_path, FAILURE)
    (tmp_path / NAME).chmod(0)
    nobody = "os.setresuid(65534, 65534, 65534)" if os.getuid() == 0 else "pass"
    code = f"import os; from appliance.cli.explain import command; {nobody}; command(['--state', {str(tmp_path)!r}])"
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"Error: {tmp_path / NAME} is for root and the group vllm-serve alone\n"


def test_a_configuration_that_was_edited_since_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("")
    for hours, told in ((-1, True), (1, False)):
        time = (datetime.now().astimezone() + timedelta(hours=hours)).isoformat(timespec="seconds")
        keep_failure(tmp_path, dataclasses.replace(FAILURE, time=time))
        assert (f"{file} was edited after that" in run("--state", tmp_path, "--config", file).output) == told
