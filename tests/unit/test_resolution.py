"""How a person's values, layout rows and a recipe become one set, and what is said when they can't."""

import dataclasses
from pathlib import Path

import pytest

from appliance.core.config import config_of
from appliance.core.facts import Facts
from appliance.core.plan import Plan, build, mistakes
from appliance.core.problem import RefusedError
from appliance.core.recipe import Recipe, recipe_of
from appliance.engine.folder import make_folders
from appliance.engine.process import environment_of
from appliance.service.share import recipe_files

FACTS = Facts(engine=None, checkpoint=None, gpus=None, memory_total=None, memory_available=None, port=None, unread=())
HEAD = 'id = "r"\nsummary = "s"\nunset = ["OLD_*"]\n[model]\nsource = "/m"\n[[question]]\nask = "q"\nanswer = "a"\n'
BODY = """
[knobs.depth]
kind = "count"
default = 3
least = 1
doc = "d"
[knobs.kind]
kind = "text"
default = "plain"
choices = ["plain", "fast", "none"]
doc = "d"
[knobs.side]
kind = "path"
doc = "d"
[values]
step = { formula = "total", of = ["depth", 1] }
[vllm]
max_num_seqs = 4
cudagraph_capture_sizes = { formula = "graph_sizes", of = ["max_num_seqs", "depth"] }
enforce_eager = { absent = true }
port = "{port}"
block_size = "{step}"
tokenizer = "{side}/tokenizer"
[env]
ROOT = "{cache}/{kind}"
[[layout]]
when = { kind = "fast" }
[layout.knobs]
depth = 7
[layout.vllm]
max_num_seqs = 8
[[layout]]
when = { kind = "fast", max_num_seqs = 8 }
[layout.vllm]
enforce_eager = true
[layout.env]
ROOT = "/fast"
"""


def recipe(text: str = BODY) -> Recipe:
    return recipe_of(HEAD + text, "r.toml")


def plan(text: str = "", body: str = BODY) -> Plan:
    return build(config_of(f'recipe = "r"\n{text}', "x.toml"), recipe(body), FACTS)


def flags(text: str = "") -> str:
    argv = plan(text).argv
    return " ".join(argv[argv.index("/m") + 1 :])


def refusal(text: str = "", body: str = BODY) -> str:
    with pytest.raises(RefusedError) as refused:
        plan(text, body)
    return str(refused.value)


def test_flags_keep_the_order_of_the_recipe_and_follow_each_other() -> None:
    start = "--host 127.0.0.1 --served-model-name r"
    assert flags() == f"{start} --max-num-seqs 4 --cudagraph-capture-sizes 1 2 4 8 12 16 --port 8000 --block-size 4"
    sizes = "--cudagraph-capture-sizes 1 2 4"
    assert flags("[vllm]\nmax_num_seqs = 1\n") == f"{start} --max-num-seqs 1 {sizes} --port 8000 --block-size 4"


def test_a_row_replaces_key_by_key_and_later_rows_see_earlier_ones() -> None:
    text = '[knobs]\nkind = "fast"\n'
    assert "--max-num-seqs 8 --cudagraph-capture-sizes 1 2 4 8 16 24 32 40 48 56 64 --enforce-eager" in flags(text)
    assert {v.name: v.value for v in plan(text).env}["ROOT"] == "/fast"


def test_a_persons_value_wins_over_every_row() -> None:
    text = '[vllm]\nmax_num_seqs = 2\n[knobs]\nkind = "fast"\ndepth = 1\n[env]\nROOT = "{cache}"\n'
    assert "--max-num-seqs 2 --cudagraph-capture-sizes 1 2 4 --port 8000 --block-size 2" in flags(text)
    assert {v.name: v.value for v in plan(text).env}["ROOT"] == "{cache}"


def test_a_flag_that_names_something_unset_is_left_out() -> None:
    assert "--tokenizer" not in flags()
    assert flags('[knobs]\nside = "/s"\n').endswith("--tokenizer /s/tokenizer")


def test_origins_name_the_line_and_the_formula() -> None:
    origins = {setting.name: setting.origin for setting in plan('[knobs]\nkind = "fast"\n').settings}
    assert origins["cudagraph_capture_sizes"] == "r.toml:27 (graph_sizes of depth, max_num_seqs)"
    assert origins["max_num_seqs"] == "r.toml:39"
    assert origins["enforce_eager"] == "r.toml:43"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[knobs]\ndepth = 0\n", "x.toml:3: [knobs] depth: found 0, wants at least 1"),
        ("[knobs]\ndepth = true\n", "x.toml:3: [knobs] depth: found true, wants a whole number"),
        ('[knobs]\nkind = "x"\n', 'x.toml:3: [knobs] kind: found "x", wants one of plain, fast, none'),
        ("[knobs]\ndept = 1\n", "x.toml:3: [knobs] dept: recipe r has no such knob; did you mean depth?"),
        ("[cluster]\nnodes = 2\n", "x.toml:3: [cluster] nodes: recipe r is made for 1, found 2"),
        ('[cluster]\nfabric_layout = "ring"\n', "x.toml:3: [cluster] fabric_layout: a ring of 1 machines"),
    ],
)
def test_a_value_that_the_recipe_can_not_use_is_told_with_its_line(text: str, told: str) -> None:
    assert refusal(text).startswith(told)


def test_all_of_them_are_told_together() -> None:
    text = "[knobs]\ndepth = 0\nkind = 3\nx = 1\n[cluster]\nnodes = 2\n"
    problems = mistakes(config_of(text, "x.toml"), recipe())
    assert [problem.key for problem in problems] == [*("[knobs] depth", "[knobs] kind", "[cluster] nodes", "[knobs] x")]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('[vllm]\nseed = "{sed}"\n', "r.toml:10: [vllm] seed: there is no sed"),
        ('[vllm]\nseed = { formula = "totl", of = [] }\n', "there is no formula totl; did you mean total?"),
        (
            '[vllm]\nhost = "1.2.3.4"\n',
            "[vllm] host: vllm-serve sets --host itself; set [api] host; a recipe may place",
        ),
        ("[env]\nPYTHONHOME = 1\n", "[env] PYTHONHOME: vllm-serve sets this variable itself"),
        ("[[layout]]\n[layout.vllm]\nseed = 1\n", "r.toml:9: [[layout]]: a row without a case"),
        ("[[layout]]\nwhen = { x = 1 }\n", "there is no x"),
        ('[knobs.host]\nkind = "text"\ndoc = "d"\n', "[knobs] host: names a flag, a variable or something built in"),
        ('[knobs.a]\nkind = "txt"\ndoc = "d"\n', '[knobs] a.kind: found "txt"; did you mean text?'),
        ("[[rule]]\nformula = 3\nof = []\n", "[[rule]] formula: found 3, wants a string"),
    ],
)
def test_a_mistake_in_a_recipe_is_told_before_anything_is_done(body: str, told: str) -> None:
    with pytest.raises(RefusedError) as refused:
        recipe(body)
    assert told in str(refused.value)


def test_values_that_depend_on_each_other_are_a_mistake_and_no_loop() -> None:
    assert "depends on itself: a -> b -> a" in refusal(body='[values]\na = "{b}"\nb = "{a}"\n[vllm]\nseed = "{a}"\n')


def test_inherited_variables_go_by_the_start_of_their_names() -> None:
    environment = environment_of(plan(), [("OLD_ONE", "1"), ("OLDER", "2"), ("NOTIFY_SOCKET", "x")])
    assert environment.keys() & {"OLD_ONE", "OLDER", "NOTIFY_SOCKET"} == {"OLDER"}


FRESH = '[env]\nWHERE = "{cache}/tuned"\n[[folder]]\npath = "{WHERE}"\nfresh = true\n'


@pytest.mark.parametrize("where", ["/data/models", "/var/cache/vllm-serve/engine", "/tmp/../data", "/"])
def test_nobody_elses_folder_is_ever_emptied(where: str) -> None:
    told = refusal(f'[env]\nWHERE = "{where}"\n', FRESH)
    assert "x.toml:3: [env] WHERE:" in told
    assert "is emptied before each launch" in told
    assert "is emptied" in refusal(f'[env]\nWHERE = "{where}"\n[paths]\ncache = "/"\n', FRESH)


def test_a_fresh_folder_is_empty_and_others_keep_what_they_have(tmp_path: Path) -> None:
    folders = plan(f'[paths]\ncache = "{tmp_path}"\n', FRESH).folders
    assert [(folder.path, folder.fresh) for folder in folders] == [(f"{tmp_path}/tuned", True)]
    for folder in (folders[0], dataclasses.replace(folders[0], path=f"{tmp_path}/kept", fresh=False)):
        make_folders([folder])
        (Path(folder.path) / "old").touch()
        make_folders([folder])
    assert not list((tmp_path / "tuned").iterdir())
    assert (tmp_path / "kept/old").exists()


def test_a_link_in_place_of_a_fresh_folder_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "tuned").symlink_to(tmp_path / "precious")
    make_folders(plan(f'[paths]\ncache = "{tmp_path}"\n', FRESH).folders)
    assert (tmp_path / "precious/file").exists()
    assert not (tmp_path / "tuned").is_symlink()


def test_a_recipe_of_a_person_takes_the_place_of_the_packages(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/big.toml").touch()
    (tmp_path / "demo.toml").touch()
    files = recipe_files(tmp_path)
    assert (files["mine/big"], files["demo"]) == (tmp_path / "mine/big.toml", tmp_path / "demo.toml")
