"""How a person's values, layout rows and a recipe become one set, and what is said when they can't."""

import dataclasses
from pathlib import Path

import pytest

from appliance.core.config import config_of
from appliance.core.facts import Facts
from appliance.core.plan import Plan, build, mistakes
from appliance.core.problem import RefusedError
from appliance.core.recipe import Recipe, recipe_of
from appliance.core.suitability import mistaken
from appliance.engine.folder import MARK, make_folders
from appliance.engine.optionlist import options_of
from appliance.engine.process import environment_of
from appliance.service.share import recipe_at, recipe_files

FACTS = Facts(engine=None, checkpoint=None, gpus=None, memory_total=None, memory_available=None, port=None, unread=())
HEAD = 'id = "r"\nsummary = "s"\nunset = ["OLD_*"]\n[model]\nsource = "/m"\n[[question]]\nname = "q"\njudge = "task"\n'
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
    start = "--host 127.0.0.1 --served-model-name m"
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
    assert [file.name for file in (tmp_path / "tuned").iterdir()] == [MARK]
    assert (tmp_path / "kept/old").exists()


@pytest.mark.parametrize("place", ["tuned", "link/tuned"])
def test_a_folder_that_somebody_else_filled_is_not_emptied(tmp_path: Path, place: str) -> None:
    (tmp_path / "real/tuned").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "tuned").mkdir()
    (tmp_path / place / "precious").touch()
    (folder,) = plan(f'[paths]\ncache = "{tmp_path}"\n', FRESH).folders
    with pytest.raises(OSError, match="not one that vllm-serve made"):
        make_folders([dataclasses.replace(folder, path=f"{tmp_path}/{place}")])
    assert (tmp_path / place / "precious").exists()


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[vllm]\nmax_num_seqs = 9223372036854775807\n",
            "[vllm] max_num_seqs: found 9223372036854775807, wants a number",
        ),
        ("[vllm]\ntensor_parallel_size = 0\n", "[vllm] tensor_parallel_size: found 0, wants a number from 1 to 1024"),
        (
            "[vllm]\ngpu_memory_utilization = 90\n",
            "[vllm] gpu_memory_utilization: found 90, wants a number from 0.01 to 1",
        ),
        ('[vllm]\ngpu_memory_utilization = "1e9"\n', '[vllm] gpu_memory_utilization: found "1e9", wants a number'),
        ('[vllm]\ngpu_memory_utilization = "inf"\n', '[vllm] gpu_memory_utilization: found "inf", wants a number'),
        ('[vllm]\nmax_num_seqs = "9_999_999"\n', '[vllm] max_num_seqs: found "9_999_999", wants a number'),
        ("[vllm]\nmax_model_len = -5\n", "[vllm] max_model_len: found -5, wants a number"),
        ("[vllm]\nkv_cache_memory_bytes = -1\n", "[vllm] kv_cache_memory_bytes: found -1, wants a number"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_before_anything_counts_with_them(text: str, told: str) -> None:
    (problem,) = mistaken(config_of(text, "x.toml"), recipe(), options_of(None, None))
    assert str(problem).startswith(f"x.toml:2: {told}")


@pytest.mark.parametrize("value", ["-1", '"auto"', '"128k"', "1"])
def test_lengths_that_vllm_knows_are_fine(value: str) -> None:
    assert mistaken(config_of(f"[vllm]\nmax_model_len = {value}\n", "x.toml"), recipe(), options_of(None, None)) == ()


def test_the_text_of_a_number_counts_as_one() -> None:
    assert "--max-num-seqs 2 --cudagraph-capture-sizes 1 2 4 8" in flags('[vllm]\nmax_num_seqs = "2"\n')


def test_a_flag_in_the_wrong_section_does_not_swallow_the_flag() -> None:
    with pytest.raises(RefusedError, match=r"\[env\] max_num_seqs: looks like a flag of vLLM; write flags in \[vllm\]"):
        config_of('[env]\nmax_num_seqs = "3"\n', "x.toml")


def test_named_gpus_reach_an_engine_whose_recipe_says_nothing_of_them() -> None:
    env = {v.name: v.value for v in plan("[gpu]\ndevices = [2, 3]\ncount = 1\n").env}
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("2", "PCI_BUS_ID")


def test_a_knob_that_nothing_asks_for_is_noted() -> None:
    text = "[knobs]\ndepth = 5\n[vllm]\ncudagraph_capture_sizes = [1]\nblock_size = 16\n"
    assert plan(text).notes == ("[knobs] depth has no effect with recipe r and the other values",)
    assert plan("[knobs]\ndepth = 5\n").notes == ()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('[[rule]]\nformula = "nope"\nof = []\n', "r.toml:10: [[rule]] formula: there is no formula nope"),
        ('[[rule]]\nformula = "total"\nof = ["x"]\n', "r.toml:11: [[rule]] of: there is no x"),
        ('[[file]]\npath = "{x}"\ndoc = "d"\nremedy = "r"\n', "r.toml:10: [[file]] path: there is no x"),
        ('[[folder]]\npath = "/a"\nwhen = { x = 1 }\n', "there is no x"),
        ('[vllm]\nseed = { formula = "total", of = 5 }\n', "[vllm] seed: of wants a list of names and whole numbers"),
        (
            '[vllm]\nseed = { formula = "total", off = [] }\n',
            "[vllm] seed: a formula takes `of` and nothing else, found off",
        ),
        ('[knobs.a]\nkind = "count"\ndoc = "d"\ndefault = "x"\n', '[knobs] a.default: found "x", wants a whole number'),
        ("[cluster]\nnodes = 5\n", "cluster: nodes and ring must be among allowed"),
    ],
)
def test_loose_ends_of_a_recipe_are_told_when_it_is_read(body: str, told: str) -> None:
    with pytest.raises(RefusedError) as refused:
        recipe(body)
    assert told in str(refused.value)


def test_a_flag_of_a_recipe_that_no_engine_takes_is_told_at_its_own_line() -> None:
    body = '[vllm]\ndtype = "bf17"\nmax_modl_len = 3\n[env]\nVLLM_SERVER_DEV_MOD = 1\n'
    told = [str(problem) for problem in mistaken(config_of("", "x.toml"), recipe(body), options_of(None, None))]
    assert [line.partition(": found")[0].partition(": vLLM")[0] for line in told] == [
        *("r.toml:10: [vllm] dtype", "r.toml:11: [vllm] max_modl_len", "r.toml:13: [env] VLLM_SERVER_DEV_MOD")
    ]


def test_a_recipe_is_called_by_the_path_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(HEAD)
    with pytest.raises(RefusedError, match='id: found "r", wants the path of the file'):
        recipe_at(tmp_path / "q.toml")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('NCCL_IB_GID_INDEX = ""', "found an empty text, which NCCL reads as 0"),
        ("CUDA_VISIBLE_DEVICES = 1", "the number of GPUs follows from it; set [gpu] devices"),
        ("X = nan", "found nan, wants a finite number"),
    ],
)
def test_a_variable_that_would_mislead_is_refused(line: str, told: str) -> None:
    with pytest.raises(RefusedError) as refused:
        config_of(f"[env]\n{line}\n", "x.toml")
    assert str(refused.value).startswith(f"x.toml:2: [env] {line.split(maxsplit=1)[0]}: {told}")


@pytest.mark.parametrize("key", ["[gpu] count", "[cluster] head", "[cluster] subnets", "[cluster] role"])
def test_a_key_of_a_section_that_the_recipe_does_not_ask_for_is_noted(key: str) -> None:
    values = {"count": "1", "head": '"10.0.0.1"', "subnets": '["10.0.1."]', "role": '"head"'}
    section, name = key.split()
    assert plan(f"{section}\n{name} = {values[name]}\n").notes == (
        f"{key} has no effect with recipe r and the other values",
    )
