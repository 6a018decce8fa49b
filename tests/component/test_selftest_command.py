"""`vllm-serve selftest` as a command, against a fake engine: what it prints, records, compares and exits with."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.cli.selftest import command
from tests.component.asking import FakeServer, Servers
from tests.rig import ROOT

Done = subprocess.CompletedProcess[str]

CONFIG = """
recipe = "generic"
[model]
served_model_name = "{name}"
[paths]
baselines = "{folder}/baselines"
[selftest]
budget = "20s"
{more}
"""


class Desk:
    """Where the command is called: a configuration, a folder of baselines, and a server."""

    def __init__(self, folder: Path, server: FakeServer) -> None:
        self.folder = folder
        self.server = server
        self.config = folder / "vllm-serve.toml"
        self.write()

    def write(self, more: str = "") -> None:
        text = CONFIG.format(name=self.server.name, folder=self.folder, more=more)
        self.config.write_text(text)

    @property
    def files(self) -> list[Path]:
        folder = self.folder / "baselines"
        return sorted(folder.iterdir()) if folder.exists() else []

    def run(self, *words: str, faults: str = "right", base: str | None = None, **environment: str) -> Done:
        """Call the command, with faults in force; nothing that it does may end in a traceback."""
        self.server.turn(faults)
        line = [sys.executable, "-m", "appliance.cli.main", "selftest", "--config", str(self.config)]
        line += ["--base", self.server.base if base is None else base, *words]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment}
        try:
            done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
        finally:
            self.server.turn("right")
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def told(self, *words: str, faults: str = "right") -> tuple[int, dict[str, Any]]:
        """Return the exit status and what --json says."""
        done = self.run("--json", *words, faults=faults)
        assert done.stdout.count("\n") == 1, done.stdout + done.stderr
        return done.returncode, json.loads(done.stdout, parse_constant=pytest.fail)

    def verdict(self, name: str, *words: str, faults: str = "right") -> dict[str, Any]:
        found = {verdict["name"]: verdict for verdict in self.told(*words, faults=faults)[1]["verdicts"]}
        verdict: dict[str, Any] = found[name]
        return verdict


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers.below(tmp_path_factory.mktemp("servers")) as found:
        yield found


@pytest.fixture
def desk(tmp_path: Path, servers: Servers) -> Desk:
    return Desk(tmp_path, servers.of("large"))


def test_the_verdicts_are_a_table(desk: Desk) -> None:
    done = desk.run()
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["question", "verdict", "expected", "found", "s"]
    assert [row.split()[0] for row in rows] == [
        *("task", "streaming", "streaming-completion", "finite", "names", "france", "france-completion"),
        *("counting", "korean"),
    ]
    france = next(row for row in rows if row.startswith("france "))
    assert france.split()[1:4] == ["right", "Paris", "Paris"]
    assert float(france.split()[-1]) >= 0
    assert "skipped" in rows[2]


def test_a_wrong_answer_that_is_only_told_is_marked_so(tmp_path: Path, servers: Servers) -> None:
    done = Desk(tmp_path, servers.of("small")).run()
    assert done.returncode == 0
    told = [line for line in done.stdout.splitlines() if "wrong (told only)" in line]
    assert [line.split()[0] for line in told] == ["counting", "korean"]
    assert "21 follows 19" in told[0]
    assert "3 letters of hangul" in told[1]


def test_json_has_every_number_of_every_verdict(desk: Desk) -> None:
    status, table = desk.told()
    assert (status, table["outcome"]) == (0, "right")
    assert set(table) == {"outcome", "verdicts"}
    for verdict in table["verdicts"]:
        assert set(verdict) == {
            *("name", "judge", "outcome", "gate", "expected", "found", "why", "seconds", "measures", "bounds"),
        }
        assert verdict["outcome"] in ("right", "skipped")
    finite = next(verdict for verdict in table["verdicts"] if verdict["name"] == "finite")
    assert (finite["judge"], finite["gate"]) == ("likelihood", True)
    assert 0 < finite["measures"]["nats_per_token"] < 5
    status, table = desk.told(faults="nan")
    assert (status, table["outcome"]) == (1, "wrong")
    assert desk.told("--only", "finite", faults="error")[0] == 75


def test_only_some_questions_are_asked(desk: Desk) -> None:
    status, table = desk.told("--only", "names", "--only", "finite")
    assert (status, [verdict["name"] for verdict in table["verdicts"]]) == (0, ["finite", "names"])
    done = desk.run("--only", "finit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no question finit; did you mean finite?" in done.stderr
    assert desk.run("--only", "names", "--record").returncode == 2
    assert desk.run("--record", "--forget").returncode == 2
    assert desk.files == []


def test_what_was_recorded_comes_again(desk: Desk) -> None:
    done = desk.run("--record")
    assert done.returncode == 0, done.stderr
    assert len(desk.files) == 1
    assert f"recorded in {desk.files[0]}" in done.stderr
    assert desk.files[0].stat().st_mode & 0o777 == 0o644
    status, table = desk.told()
    assert (status, table["outcome"]) == (0, "right")
    found = {verdict["name"]: verdict for verdict in table["verdicts"] if verdict["judge"] == "baseline"}
    assert {name: verdict["gate"] for name, verdict in found.items() if name != "baseline-speed"} == {
        "baseline-logprobs": True,
        "baseline-greedy": True,
    }
    assert found["baseline-logprobs"]["measures"] == {"mean": 0, "largest": 0}
    assert found["baseline-logprobs"]["bounds"] == {"mean": 0.06, "largest": 0.6}
    assert desk.run("--record").returncode == 0
    assert len(desk.files) == 1


def test_what_changes_at_midnight_is_not_recorded(desk: Desk) -> None:
    assert desk.run("--record", faults="dated").returncode == 0
    passages = json.loads(desk.files[0].read_text())["reference"]["passages"]
    assert passages
    assert not any(passage["chat"] for passage in passages)
    status, table = desk.told()
    assert (status, table["outcome"]) == (0, "right")
    assert desk.run("--record").returncode == 0
    passages = json.loads(desk.files[0].read_text())["reference"]["passages"]
    assert any(passage["chat"] and passage["system"] for passage in passages)


def test_an_address_with_a_password_is_refused_and_not_shown(desk: Desk) -> None:
    done = desk.run(base="http://me:secret-1234@127.0.0.1:9")
    assert done.returncode == 2
    assert "secret-1234" not in done.stdout + done.stderr


def test_a_model_that_is_not_as_accepted_is_wrong(desk: Desk) -> None:
    assert desk.run("--record").returncode == 0
    for fault, name, why in (
        ("shifted", "baseline-logprobs", "other probabilities than its reference"),
        ("other", "baseline-logprobs", "other probabilities than its reference"),
        ("tokenizer", "baseline-logprobs", "tokenizer or chat template changed"),
        ("wrong", "baseline-greedy", "of the greedy texts came again"),
        ("refused-nan", "baseline-logprobs", "HTTP 400"),
    ):
        status, table = desk.told(faults=fault)
        verdict = next(verdict for verdict in table["verdicts"] if verdict["name"] == name)
        assert (status, table["outcome"], verdict["outcome"]) == (1, "wrong", "wrong"), fault
        assert why in verdict["why"] + verdict["found"]
        assert verdict["why"].startswith("not as accepted on 20") or fault == "refused-nan"


@pytest.mark.parametrize("model", ["embedding", "rerank"])
def test_vectors_and_scores_are_recorded_and_compared(tmp_path: Path, servers: Servers, model: str) -> None:
    desk = Desk(tmp_path, servers.of(model))
    assert desk.run("--record").returncode == 0
    assert desk.verdict("baseline-vectors")["measures"] == {"difference": 0}
    for fault in ("other", "degenerate"):
        assert desk.verdict("baseline-vectors", faults=fault)["outcome"] == "wrong", fault


@pytest.mark.parametrize("model", ["base", "thinking", "thinking-inline"])
def test_models_of_other_kinds_are_recorded_too(tmp_path: Path, servers: Servers, model: str) -> None:
    desk = Desk(tmp_path, servers.of(model))
    assert desk.run("--record").returncode == 0
    assert desk.told()[0] == 0
    status, table = desk.told(faults="shifted")
    assert (status, table["outcome"]) == (1, "wrong")


def test_what_can_not_be_compared_is_not_recorded(tmp_path: Path, servers: Servers) -> None:
    desk = Desk(tmp_path, servers.of("transcription"))
    done = desk.run("--record")
    assert (done.returncode, desk.files) == (75, [])
    assert "not recorded: nothing of a model for transcription can be compared later" in done.stderr


@pytest.mark.parametrize(("fault", "status"), [("degenerate", 1), ("nan", 1), ("html", 75)])
def test_a_model_that_is_not_right_is_not_recorded(desk: Desk, fault: str, status: int) -> None:
    done = desk.run("--record", faults=fault)
    assert (done.returncode, desk.files) == (status, [])


def test_another_engine_is_compared_with_wider_bounds_and_the_difference_named(desk: Desk) -> None:
    assert desk.run("--record").returncode == 0
    file = desk.files[0]
    table = json.loads(file.read_text())
    table["identity"]["engine"] = "0.31.0"
    (file.parent / f"{file.stem.partition('-')[0]}-other.json").write_text(json.dumps(table))
    file.unlink()
    verdict = desk.verdict("baseline-logprobs")
    assert (verdict["outcome"], verdict["bounds"]) == ("right", {"mean": 0.15, "largest": 1.2})
    verdict = desk.verdict("baseline-logprobs", faults="shifted")
    assert verdict["outcome"] == "wrong"
    assert "(engine 0.31.0, now 0.32.0)" in verdict["why"]
    assert desk.run("--record").returncode == 0
    assert desk.verdict("baseline-logprobs")["bounds"] == {"mean": 0.06, "largest": 0.6}
    assert len(desk.files) == 2


def test_a_damaged_baseline_is_told_and_nothing_is_skipped(desk: Desk) -> None:
    assert desk.run("--record").returncode == 0
    file = desk.files[0]
    for content in (b"", b"null", b"\xff\xfe", b"[" * 100000, b'{"format": 2}', b'{"noise_mean": NaN}'):
        file.write_bytes(content)
        done = desk.run()
        assert (done.returncode, done.stdout) == (78, ""), content[:20]
        assert done.stderr.startswith(f"{file}: no baseline: ")
        assert "--forget" in done.stderr
        assert len(done.stderr) < 600
    done = desk.run("--forget")
    assert (done.returncode, done.stdout) == (0, f"removed {file}\n")
    assert (desk.files, desk.run().returncode) == ([], 0)


def test_what_was_accepted_is_forgotten(desk: Desk) -> None:
    assert desk.run("--record").returncode == 0
    file = desk.files[0]
    other = file.with_name("0123456789ab-0123456789ab.json")
    other.write_bytes(file.read_bytes().replace(b'"source": "http', b'"source": "xttp'))
    done = desk.run("--forget")
    assert (done.returncode, done.stdout) == (0, f"removed {file}\n")
    assert desk.files == [other]
    done = desk.run("--forget")
    assert (done.returncode, done.stdout.startswith("nothing was recorded of http://")) == (0, True)


def test_a_folder_that_can_not_be_written_is_told(desk: Desk) -> None:
    (desk.folder / "baselines").write_text("a file")
    for words, status in ((("--record",), 78), ((), 78), (("--forget",), 78)):
        done = desk.run(*words)
        assert done.returncode == status, words
        assert str(desk.folder / "baselines") in done.stderr


def test_a_server_that_is_not_there_can_not_be_told(desk: Desk) -> None:
    done = desk.run(base="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr.startswith("no answer from http://127.0.0.1:9: no reply: ClientConnectorError")


@pytest.mark.parametrize(("fault", "said"), [("html", "not JSON: <!doctype html>"), ("redirect", "HTTP 302")])
def test_a_server_of_something_else_is_told_apart(desk: Desk, fault: str, said: str) -> None:
    done = desk.run(faults=fault)
    assert (done.returncode, done.stdout) == (75, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "base",
    ["", "localhost:8000", "ftp://x", "http://", "http://x:99999", "http://x:0", "http://[::1", "http://a b", "//x"],
)
def test_an_address_that_is_none_is_a_mistake_of_the_caller(base: str) -> None:
    done = CliRunner().invoke(command, ["--base", base])
    assert done.exit_code == 2
    assert "--base wants an address such as http://HOST:PORT" in done.output


def test_an_address_may_end_as_openai_clients_have_it(desk: Desk) -> None:
    for end in ("/", "/v1/"):
        assert desk.run("--only", "names", base=desk.server.base + end).returncode == 0


def test_a_model_that_is_not_served_is_wrong(desk: Desk) -> None:
    done = desk.run("--model", "another")
    assert done.returncode == 1
    assert "does not exist" in done.stdout


def test_a_key_is_asked_for_and_taken_from_the_environment(tmp_path: Path, servers: Servers) -> None:
    desk = Desk(tmp_path, servers.of("small", "--api-key", "sesame"))
    done = desk.run()
    assert done.returncode == 75
    assert "HTTP 401" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr
    done = desk.run(OPENAI_API_KEY="sesame")
    assert done.returncode == 0
    assert "sesame" not in done.stdout + done.stderr


def test_without_a_running_service_there_is_nothing_to_ask_but_what_was_accepted_can_be_forgotten(desk: Desk) -> None:
    desk.write('[env]\nX = "1"')
    desk.config.write_text(desk.config.read_text().replace("[model]", f'[model]\nsource = "{desk.folder}"'))
    line = [sys.executable, "-m", "appliance.cli.main", "selftest", "--config", str(desk.config)]
    line += ["--runtime", str(desk.folder / "run")]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    for words, status, said in (
        ((), 75, "the service has no running engine"),
        (("--forget",), 0, f"nothing was recorded of {desk.folder}"),
    ):
        done = subprocess.run([*line, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


class Odd(http.server.BaseHTTPRequestHandler):
    """Says the same to everything: characters that no terminal and no file should get."""

    said = json.dumps("Paris \x1b[31m\x07 \ud800 \u2028").encode()
    choice = b'{"message": {"content": %s}, "text": %s, "finish_reason": "stop"}' % (said, said)
    body = b'{"data": [{"id": "-m"}], "choices": [%s]}' % choice

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        """Keep quiet."""


def test_what_a_server_says_does_not_reach_the_terminal_as_it_is(desk: Desk) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        done, line = desk.run(base=base), desk.run("--json", base=base)
        server.shutdown()
    for output in (done.stdout + done.stderr, line.stderr):
        assert all(char.isprintable() or char == "\n" for char in output)
    assert r"Paris \x1b[31m" in done.stdout
    assert (done.returncode, line.returncode) == (1, 1)
    france = next(verdict for verdict in json.loads(line.stdout)["verdicts"] if verdict["name"] == "france")
    assert france["found"] == json.loads(Odd.said)


def test_an_own_question_is_asked_in_place_of_the_recipes(desk: Desk) -> None:
    own = '[[question]]\nname = "france"\njudge = "answer"\nask = "What is 12 + 30?"\nnumber = 41\n'
    desk.write(f'skip = ["korean"]\n{own}')
    status, table = desk.told()
    found = {verdict["name"]: verdict for verdict in table["verdicts"]}
    assert "korean" not in found
    assert (status, found["france"]["outcome"], found["france"]["gate"]) == (1, "wrong", True)
    assert (found["france"]["expected"], found["france"]["found"]) == ("41", "12 + 30 = 42.")
