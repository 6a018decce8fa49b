"""vllm-serve.toml on the disk: drop-ins, and everything that can be wrong with files."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.core.config import LARGEST_SUM, Config, config_from, config_of
from appliance.core.document import LARGEST_FILE, LONGEST_LINE, MOST_DOTS
from appliance.core.problem import RefusedError
from appliance.core.setting import Setting, Variable
from appliance.service.configfile import MOST_DROP_INS, problems_of, read_config

MAIN = 'recipe = "demo"\n'


def written(folder: Path, *drop_ins: str | bytes, main: str | bytes = MAIN) -> Path:
    """Write a file and its drop-ins 00.toml, 01.toml and so on."""
    file = folder / "x.toml"
    file.write_bytes(main.encode() if isinstance(main, str) else main)
    (folder / "x.toml.d").mkdir()
    for number, content in enumerate(drop_ins):
        drop_in = folder / "x.toml.d" / f"{number:02}.toml"
        drop_in.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def refusal(file: Path) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        read_config(file)
    return [str(problem).replace(f"{file.parent}/", "") for problem in refused.value.problems]


def origins(config: Config, folder: Path) -> list[str]:
    entries: tuple[Setting | Variable, ...] = (*config.vllm, *config.env, *config.knobs)
    return [entry.origin.removeprefix(f"{folder}/") for entry in entries]


def test_each_key_of_a_drop_in_replaces_the_earlier_one(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "[vllm]\nmax-model-len = 2\n[api]\nport = 1\n[env]\nA = 2\n",
        "[api]\nport = 2\n[knobs]\nk = [1]\nempty = {}",
        'recipe = "other"',
        main=MAIN
        + "[vllm]\nmax_model_len = 1\nseed = 1\n[api]\nport = 9\nhost = '::1'\n[env]\nA = 1\nB = 1\n[knobs]\nk = 2",
    )
    config = read_config(file)
    assert [(setting.name, setting.value) for setting in config.vllm] == [("max_model_len", 2), ("seed", 1)]
    assert [(variable.name, variable.value) for variable in config.env] == [("A", "2"), ("B", "1")]
    assert [knob.name for knob in config.knobs] == ["k", "empty"]
    assert (config.api.host, config.api.port, config.recipe) == ("::1", 2, "other")
    assert origins(config, tmp_path) == [
        *("x.toml.d/00.toml:2", "x.toml:4", "x.toml.d/00.toml:6", "x.toml:10"),
        *("x.toml.d/01.toml:4", "x.toml.d/01.toml:5"),
    ]
    assert config.recipe_origin == config.origin("recipe") == f"{tmp_path}/x.toml.d/02.toml:1"
    assert config.origin("[api] port") == f"{tmp_path}/x.toml.d/01.toml:2"
    assert config.origin("[api] host") == f"{tmp_path}/x.toml:7"
    assert config.origin("[log] file") == config.file == str(file)
    assert config.files == (str(file), *(f"{tmp_path}/x.toml.d/0{number}.toml" for number in range(3)))


def test_a_list_and_a_table_are_replaced_as_a_whole(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "[vllm.speculative_config]\nb = 2\n[engine]\nextra_args = ['--seed=1']",
        main="[vllm.speculative_config]\na = 1\n[engine]\nextra_args = ['--seed', '2']",
    )
    config = read_config(file)
    assert config.engine.extra_args == ("--seed=1",)
    assert str(config.vllm[0].value) == "Json(text='{\"b\":2}')"
    assert config.vllm[0].origin == f"{tmp_path}/x.toml.d/00.toml:1"


@pytest.mark.parametrize(
    "name", ["x.toml~", "x.conf", ".x.toml", "x.toml.dpkg-new", "x.toml.dpkg-old", "#x.toml#", "toml"]
)
def test_only_names_of_toml_files_count(tmp_path: Path, name: str) -> None:
    file = written(tmp_path)
    (tmp_path / "x.toml.d" / name).write_text("nonsense")
    assert read_config(file).files == (str(file),)


def test_drop_ins_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    file = written(tmp_path)
    names = ["10-a.toml", "10-b.toml", "2.toml", "Z.toml", "a.toml", "\u4f60.toml"]
    for number in (3, 1, 5, 0, 4, 2):
        (tmp_path / "x.toml.d" / names[number]).write_text(f"[api]\nport = {number + 1}")
    config = read_config(file)
    assert [Path(found).name for found in config.files[1:]] == names
    assert config.api.port == 6


def test_the_problems_of_all_files_are_told_together(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "[api]\nprot = 1",
        "a = ",
        b"\n# \xff",
        "[vllm]\nport = 1",
        main="[api]\nport = 0\n[env]\nHF_TOKEN = 'x'",
    )
    (tmp_path / "x.toml.d/00-none.toml").symlink_to("nowhere")
    assert refusal(file) == [
        "x.toml:2: [api] port: found 0, wants a port from 1 to 65535",
        "x.toml:4: [env] HF_TOKEN: looks like a secret, and this file can be read by others; remove it",
        "x.toml.d/00.toml:2: [api] prot: unknown key; did you mean port?",
        "x.toml.d/01.toml:1: not valid TOML: Invalid value; write text in quotes, and true, false and numbers without",
        "x.toml.d/03.toml:2: [vllm] port: vllm-serve sets --port itself; set [api] port",
        "x.toml.d/00-none.toml: a link to nowhere, where nothing is",
        "x.toml.d/02.toml:2: byte 3 is not UTF-8; save the file as UTF-8",
    ]


def test_a_replaced_mistake_is_a_mistake_still(tmp_path: Path) -> None:
    file = written(tmp_path, "[api]\nport = 1\n[vllm]\nseed = 1", main="api = 3\n[vllm]\nseed = nan")
    assert refusal(file) == [
        "x.toml:1: api: wants a table; write [api] on a line of its own",
        "x.toml:3: [vllm] seed: found nan, wants a finite number",
    ]


def test_types_may_change_where_any_is_taken(tmp_path: Path) -> None:
    file = written(tmp_path, "[vllm]\nseed = {b = 1}\n[knobs]\nk = []", main="[vllm]\nseed = 1\n[knobs]\nk = 'text'")
    config = read_config(file)
    assert [str(entry.value) for entry in (*config.vllm, *config.knobs)] == [
        "Json(text='{\"b\":1}')",
        "Json(text='[]')",
    ]


def test_a_contradiction_of_two_files_is_told_where_the_later_one_makes_it(tmp_path: Path) -> None:
    file = written(tmp_path, "[gpu]\ncount = 3", main="[gpu]\ndevices = [0, 1]")
    assert refusal(file) == [
        "x.toml.d/00.toml:2: [gpu] count: count is 3, and devices names 2; lower count, or name more devices"
    ]
    (tmp_path / "x.toml.d/01.toml").write_text("[gpu]\ndevices = [0, 1, 2, 3]")
    assert read_config(file).gpu.count == 3


def test_what_is_no_file_is_one_clear_problem(tmp_path: Path) -> None:
    file = written(tmp_path)
    folder = tmp_path / "x.toml.d"
    (folder / "1.toml").mkdir()
    os.mkfifo(folder / "2.toml")
    (folder / "3.toml").symlink_to("3.toml")
    (folder / "4.toml").symlink_to("/dev/zero")
    assert refusal(file) == [
        "x.toml.d/1.toml: is a folder, wants a file",
        "x.toml.d/2.toml: is no plain file",
        "x.toml.d/3.toml: can't be read: Too many levels of symbolic links",
        "x.toml.d/4.toml: is no plain file",
    ]


def test_a_missing_file_is_told_also_where_drop_ins_are_good(tmp_path: Path) -> None:
    assert refusal(tmp_path / "x.toml") == ["x.toml: can't be read: No such file or directory"]
    file = written(tmp_path, "[api]\nport = 1")
    file.unlink()
    assert refusal(file) == ["x.toml: can't be read: No such file or directory"]
    file.symlink_to(tmp_path / "gone")
    assert refusal(file) == ["x.toml: a link to gone, where nothing is"]
    file.unlink()
    file.mkdir()
    assert refusal(file) == ["x.toml: is a folder, wants a file"]


def test_a_folder_of_drop_ins_that_is_none_is_told(tmp_path: Path) -> None:
    file = written(tmp_path)
    folder = tmp_path / "x.toml.d"
    folder.rmdir()
    assert read_config(file).files == (str(file),)
    folder.write_text("")
    assert refusal(file) == ["x.toml.d: wants a folder; drop-ins are files in it that end in .toml"]
    folder.unlink()
    folder.symlink_to("nowhere")
    assert refusal(file) == ["x.toml.d: a link to nowhere, where nothing is"]
    folder.unlink()
    folder.symlink_to("x.toml.d")
    assert refusal(file) == ["x.toml.d: can't be read: Too many levels of symbolic links"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_leave_to_read_is_told(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    (tmp_path / "x.toml.d/00.toml").chmod(0)
    assert refusal(file) == ["x.toml.d/00.toml: can't be read: Permission denied"]
    (tmp_path / "x.toml.d").chmod(0)
    assert refusal(file) == ["x.toml.d: can't be read: Permission denied"]
    (tmp_path / "x.toml.d").chmod(0o700)


def test_names_that_would_break_a_line_are_shown_escaped(tmp_path: Path) -> None:
    file = written(tmp_path)
    folder = tmp_path / "x.toml.d"
    (folder / "a\nb\x1b.toml").write_text("prot = 1")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.toml")).write_text("[vllm]\nseed = 1")
    assert refusal(file)[0].startswith("x.toml.d/a\\nb\\u001b.toml:1: prot: unknown key")
    (folder / "a\nb\x1b.toml").unlink()
    assert read_config(file).vllm[0].origin.endswith("/\\udcff.toml:2")


def test_three_hundred_drop_ins_are_read(tmp_path: Path) -> None:
    file = written(tmp_path, *(f"[vllm]\nf{number} = 1\nlast = {number}" for number in range(300)))
    config = read_config(file)
    assert (len(config.files), len(config.vllm)) == (301, 301)
    assert {setting.name: setting.value for setting in config.vllm}["last"] == 99, "names, not numbers, give the order"


def test_there_is_an_end_to_drop_ins(tmp_path: Path) -> None:
    file = written(tmp_path, *[""] * (MOST_DROP_INS + 1))
    assert refusal(file) == [f"x.toml.d: {MOST_DROP_INS + 1} drop-ins, at most {MOST_DROP_INS}"]


def test_what_is_too_large_is_refused_quickly(tmp_path: Path) -> None:
    large = b"# 1234567\n" * 1_000_000
    file = written(tmp_path, large, main=large)
    line = "#" * 99 + "\n"
    for number in range(6):
        (tmp_path / f"x.toml.d/1{number}.toml").write_text(line * (LARGEST_FILE // 100))
    started = time.process_time()
    problems = refusal(file)
    assert time.process_time() - started < 5
    assert f"x.toml: more than {4 * LARGEST_FILE} bytes" in problems
    assert f"x.toml.d/00.toml: more than {4 * LARGEST_FILE} bytes" in problems
    assert any(problem.endswith(f"at most {LARGEST_SUM}") for problem in problems)


NASTY: dict[str, Callable[[int], str]] = {
    "many tables": lambda size: "".join(f"[a{number}.b.c]\n" for number in range(size // 16)),
    "dotted keys": lambda size: "".join(f"a{'.b' * (MOST_DOTS - 1)}{number} = 1\n" for number in range(size // 80)),
    "nested lists": lambda size: "x = [" + "[1],\n" * (size // 6) + "]",
    "one long line of quotes": lambda size: (
        ("x = [" + '"",' * (LONGEST_LINE // 3 - 4) + "]\n[y]\n") * (size // LONGEST_LINE)
    ),
    "quotes in comments": lambda size: ("#" + "\"'" * (LONGEST_LINE // 2 - 4) + "\n") * (size // LONGEST_LINE),
    "keys of quotes": lambda size: "".join(f'"{number}\\"" . \'"\' = 1\n' for number in range(size // 20)),
    "text of many lines": lambda size: 'x = """' + "\\\\ \"\" '''\n" * (size // 11) + '"""',
    "known and unknown": lambda size: "[api]\n" + "".join(f"port{number} = 1\n" for number in range(size // 16)),
    "flags": lambda size: "[vllm]\n" + "".join(f"f{number}-a = -{number}\n" for number in range(size // 20)),
}


@pytest.mark.parametrize("name", NASTY)
def test_no_file_takes_long(name: str) -> None:
    text = NASTY[name](LARGEST_FILE)[:LARGEST_FILE]
    started = time.process_time()
    assert read_or_refused(lambda: config_of(text, "x.toml"))
    assert time.process_time() - started < 10


def read_or_refused(read: Callable[[], Config]) -> bool:
    try:
        read()
    except RefusedError as refused:
        return all(str(problem).isprintable() and problem.what for problem in refused.problems)
    return True


@given(
    st.lists(st.tuples(st.sampled_from(["a.toml", "b.toml", "c.toml"]), st.text(max_size=60)), min_size=1, max_size=4)
)
def test_any_texts_are_read_or_refused(texts: list[tuple[str, str]]) -> None:
    assert read_or_refused(lambda: config_from(texts))


@settings(deadline=None)
@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, main: bytes, drop_in: bytes) -> None:
    file = written(tmp_path_factory.mktemp("bytes"), drop_in, main=main)
    assert read_or_refused(lambda: read_config(file))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfer\0e\0", "x.toml:1: byte 0 is not UTF-8; save the file as UTF-8"),
        (b"recipe = 'a\0'", "x.toml:1: not valid TOML: "),
        (b"recipe = 'a'\r[api]", "x.toml:1: not valid TOML: "),
        (b"\xef\xbb\xbf\xef\xbb\xbfrecipe = 'a'", "x.toml:1: not valid TOML: Invalid statement"),
        (b"recipe = '" + b"a" * 20000 + b"'", "x.toml:1: a line of 20011 characters, at most 16384"),
        (b"'\x1b' = 1", "x.toml:1: not valid TOML: "),
        (b'"\\u001b[2J" = 1', "x.toml:1: \\x1b[2J: unknown key"),
        (b'"' + b"a" * 9999 + b'" = 1', "x.toml:1: " + "a" * 200 + "...: unknown key"),
    ],
)
def test_strange_bytes_are_told_in_plain_words(tmp_path: Path, content: bytes, told: str) -> None:
    (problem,) = refusal(written(tmp_path, main=content))
    assert problem.startswith(told)
    assert problem.isprintable()


def test_a_recipe_that_is_not_there_is_told_where_it_is_named(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, 'recipe = "dmeo"'))
    (problem,) = problems_of(config)
    assert str(problem).startswith(f"{tmp_path}/x.toml.d/00.toml:1: recipe: there is no recipe")
    assert problem.hint == "did you mean demo?"
    (tmp_path / "x.toml.d/00.toml").unlink()
    assert problems_of(read_config(tmp_path / "x.toml")) == ()
