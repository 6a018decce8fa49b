"""`vllm-serve config` and `vllm-serve init`: what they print, write and refuse."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
import tomli
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from appliance.cli import config, init
from appliance.cli.main import SUMMARIES
from appliance.core.config import config_of
from appliance.core.kind import UnfitError
from appliance.core.problem import RefusedError
from appliance.core.sample import SHIPPED, First, first_file
from appliance.core.schema import schema
from appliance.service.textfile import write_text


def run(command: click.Command, *arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def program(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "appliance.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def model_in(folder: Path, name: str = "qwen3") -> Path:
    model = folder / name
    model.mkdir()
    (model / "config.json").write_text("{}")
    return model


def refusal(result: Result) -> str:
    assert result.output == ""
    assert isinstance(result.exception, RefusedError)
    return str(result.exception)


def test_the_exit_status_of_a_check_tells_good_from_bad(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('recipe = "demo"')
    (tmp_path / "x.toml.d").mkdir()
    (tmp_path / "x.toml.d/1.toml").write_text("")
    done = program("config", "check", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file} with 1 drop-in: good; recipe demo\n", "")
    file.write_text("recipe = 'dmo'\n[api]\nprot = 1\nport = 0")
    done = program("config", "check", file)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines() == [
        f'{file}:1: recipe: there is no recipe "dmo"; did you mean demo?',
        f"{file}:3: [api] prot: unknown key; did you mean port?",
        f"{file}:4: [api] port: found 0, wants a port from 1 to 65535",
    ]
    file.write_text("recipe = 'dmo'")
    done = program("config", "check", file)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == f'{file}:1: recipe: there is no recipe "dmo"; did you mean demo?\n'


def test_what_is_shown_is_toml_or_json(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[api]\nport = 1")
    shown = run(config.command, "show", "--config", file)
    assert tomli.loads(shown.output)["api"]["port"] == 1
    assert f"# {file}:2\n" in shown.output
    line = run(config.command, "show", "--config", file, "--json").output
    assert line.count("\n") == 1
    assert f'"port": {{"value": 1, "origin": "{file}:2"}}' in line
    file.write_text("[api]\nport = 0")
    assert "found 0" in refusal(run(config.command, "show", "--config", file))


def test_every_verb_of_the_help_is_there() -> None:
    assert {"config", "init"} <= set(SUMMARIES)
    assert program("init", "--help").returncode == 0


def test_a_first_file_is_written_and_read(tmp_path: Path) -> None:
    model, output = model_in(tmp_path), tmp_path / "x.toml"
    result = run(init.command, "--model", f"{model}/", "--recipe", "demo", "--output", output)
    assert (result.exit_code, result.output.splitlines()[0]) == (0, f"wrote {output}")
    assert f"vllm-serve plan --config {output}" in result.output
    assert tomli.loads(output.read_text()) == {
        "recipe": "demo",
        "model": {"source": str(model), "served_model_name": "qwen3"},
    }
    assert stat.S_IMODE(output.stat().st_mode) == 0o644
    assert {found.name for found in tmp_path.iterdir()} == {"qwen3", "x.toml"}
    assert "# This machine: " in output.read_text()


def test_a_dash_prints_and_writes_nothing(tmp_path: Path) -> None:
    model = model_in(tmp_path)
    result = run(init.command, "--model", model, "--recipe", "demo", "--output", "-")
    assert tomli.loads(result.output)["model"]["source"] == str(model)
    assert {found.name for found in tmp_path.iterdir()} == {"qwen3"}


def test_drop_ins_that_will_count_are_told(tmp_path: Path) -> None:
    model, output = model_in(tmp_path), tmp_path / "x.toml"
    (tmp_path / "x.toml.d").mkdir()
    (tmp_path / "x.toml.d/1.toml").write_text("")
    result = run(init.command, "--model", model, "--recipe", "demo", "--output", output)
    assert f"note: {output}.d/1.toml is read after it" in result.output


def test_what_a_person_wrote_is_only_replaced_by_force(tmp_path: Path) -> None:
    model, output = model_in(tmp_path), tmp_path / "x.toml"
    words = ("--model", model, "--recipe", "demo", "--output", output)
    output.write_text(SHIPPED)
    assert run(init.command, *words).exit_code == 0
    written = output.read_text()
    assert written != SHIPPED
    assert "is there already" in refusal(run(init.command, *words))
    output.write_text("# mine")
    assert "is there already" in refusal(run(init.command, *words))
    assert output.read_text() == "# mine"
    assert program("init", *words).returncode == 78
    assert run(init.command, *words, "--force").exit_code == 0
    assert output.read_text() == written


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    model, output = model_in(tmp_path), tmp_path / "x.toml"
    (tmp_path / "real.toml").write_text(SHIPPED)
    output.symlink_to("real.toml")
    assert run(init.command, "--model", model, "--recipe", "demo", "--output", output).exit_code == 0
    assert output.is_symlink()
    assert "served_model_name" in (tmp_path / "real.toml").read_text()
    output.unlink()
    output.symlink_to("gone")
    words = ("--model", model, "--recipe", "demo", "--output", output)
    assert "a link to gone, where nothing is" in refusal(run(init.command, *words))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("org/name", "downloading is not part of vllm-serve yet; give the folder"),
        ("name", "wants the absolute path of a folder"),
        ("", "wants the absolute path of a folder"),
        ("/no/such/folder", "there is no such folder; give the folder that holds config.json"),
        ("{folder}/file", "is a file; give the folder that holds config.json"),
        ("{folder}/empty", "holds no config.json; is it the folder of a model?"),
        ("{folder}/folder", "holds no config.json"),
        ("{folder}/link", "there is no such folder"),
        ("{relative}/empty", "wants an absolute path; write {folder}/empty"),
        ("{folder}/a\0b", "there is no such folder"),
    ],
)
def test_a_source_that_is_no_model_is_refused_with_the_way_out(tmp_path: Path, source: str, told: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder/config.json").mkdir(parents=True)
    (tmp_path / "link").symlink_to("gone")
    relative = os.path.relpath(tmp_path)
    source, told = (text.format(folder=tmp_path, relative=relative) for text in (source, told))
    result = run(init.command, "--model", source, "--recipe", "demo", "--output", tmp_path / "x.toml")
    assert result.exit_code == 2
    assert told in " ".join(result.output.split()).replace(f"{relative}/empty: wants", "wants")
    assert not (tmp_path / "x.toml").exists()


def test_a_recipe_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = run(init.command, "--model", model_in(tmp_path), "--recipe", "dmo", "--output", "-")
    assert result.exit_code == 2
    assert "did you mean demo?" in result.output


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    words = ("--model", model_in(tmp_path), "--recipe", "demo", "--output")
    assert "can't be written: No such file or directory" in refusal(run(init.command, *words, tmp_path / "none/x.toml"))
    (tmp_path / "folder").mkdir()
    assert "is a folder" in refusal(run(init.command, *words, tmp_path / "folder"))
    assert "is no plain file" in refusal(run(init.command, *words, tmp_path / "folder", "--force"))
    assert list((tmp_path / "folder").iterdir()) == []
    assert not [found for found in tmp_path.iterdir() if found.name.startswith(".")]


def test_a_folder_without_a_usable_name_is_refused(tmp_path: Path) -> None:
    model = model_in(tmp_path, "--port")
    assert "which vLLM would take for another flag" in refusal(
        run(init.command, "--model", model, "--recipe", "demo", "--output", "-")
    )
    strange = model_in(tmp_path, os.fsdecode(b"a\xffb"))
    result = run(init.command, "--model", strange, "--recipe", "demo", "--output", "-")
    assert result.exit_code == 2
    assert "lone surrogate" in " ".join(result.output.split())


def test_a_path_with_dots_names_the_folder_itself(tmp_path: Path) -> None:
    model = model_in(tmp_path)
    result = run(init.command, "--model", f"{model}/../qwen3", "--recipe", "demo", "--output", "-")
    assert tomli.loads(result.output)["model"] == {"source": str(model), "served_model_name": "qwen3"}


@settings(deadline=None)
@given(st.text(max_size=20), st.text(max_size=20), st.lists(st.text(max_size=20), max_size=2), st.integers(0, 9))
def test_a_first_file_is_good_whatever_the_names(folder: str, name: str, machine: list[str], gpus: int) -> None:
    first = First(recipe="generic", source=f"/{folder}", name=name, machine=tuple(machine), gpus=gpus)
    try:
        text = first_file(first)
    except UnfitError:
        return
    try:
        config = config_of(text, "x.toml")
    except RefusedError as refused:
        assert all(problem.key == "[model] served_model_name" for problem in refused.problems)  # noqa: PT017
        return
    assert (config.model.source, config.model.served_model_name) == (f"/{folder}", (name,))
    assert Draft202012Validator(schema()).is_valid(tomli.loads(text))
    hints = text.replace("# [", "[").replace("# m", "m").replace("# d", "d").replace("# t", "t").replace("# h", "h")
    _, header, rest = hints.replace("# p", "p").partition("[vllm]")
    assert config_of(header + rest, "x.toml").api.port == 8000


def test_a_text_is_written_for_all_to_read(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "x", "\u4f60", replace=False)
    finally:
        os.umask(before)
    assert (tmp_path / "x").read_bytes() == "\u4f60".encode()
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o644


def test_a_file_keeps_its_mode_and_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").touch(mode=0o600)
    write_text(tmp_path / "x", "a", replace=True)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    with pytest.raises(RefusedError, match="is there already; --force replaces it"):
        write_text(tmp_path / "x", "b", replace=False)
    assert (tmp_path / "x").read_text() == "a"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match="is no plain file"):
        write_text(tmp_path / "pipe", "b", replace=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pipe", "x"]
