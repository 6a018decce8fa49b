"""The package on a real machine: systemd, apt, the journal, and the real vLLM with the demonstration model.

The tests of a module share one machine and run in their order; each leaves the unit stopped or says so.
"""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engine.install import Recipe
from appliance.engine.installation import in_use
from tests.system.appliance_machine import appliance_machine
from tests.system.damage import exchange_layers
from tests.system.machine import Machine
from tests.system.package import TREE, built_package

CONFIG = "/etc/vllm-serve.toml"
SHIPPED = (TREE / "etc/vllm-serve.toml").read_text()
SECONDS_TO_START = 600.0
MODEL = "/var/lib/vllm-serve/models/damaged"


@pytest.fixture(scope="module")
def package(cache: Path) -> Path:
    return built_package(cache / "packages")


@pytest.fixture(scope="module")
def engine(debian: Path, package: Path, cache: Path) -> None:
    """Have the product install the engine, where the cache has none, on a machine with the host's network."""
    if in_use(cache / "engines") == Recipe(device="cpu", wheelhouse=None).id:
        return
    with appliance_machine(debian, package, cache, "host") as machine:
        machine.run("vllm-serve engine list")
        machine.run("rm -f /var/lib/vllm-serve/engines/current")  # of an older lock
        machine.run("systemctl start vllm-serve-engine", timeout=1800)
        journal = machine.run("journalctl --no-pager --output=cat --unit=vllm-serve-engine").stdout
        assert "fetching package" in journal
        assert "installed vllm-" in journal


@pytest.fixture(scope="module")
def machine(debian: Path, package: Path, cache: Path, engine: None) -> Iterator[Machine]:
    """Yield a machine without a network, the package installed and the engine in place."""
    assert engine is None
    with appliance_machine(debian, package, cache, "private") as machine:
        yield machine


def show(machine: Machine, name: str, unit: str = "vllm-serve") -> str:
    return machine.run(["systemctl", "show", "--value", f"--property={name}", unit]).stdout.strip()


def journal(machine: Machine, *arguments: str) -> str:
    command = ["journalctl", "--no-pager", "--output=cat", "--unit=vllm-serve", *arguments]
    return machine.run(command).stdout


def ask(machine: Machine, question: str) -> str:
    body = {"model": "demo", "messages": [{"role": "user", "content": question}], "temperature": 0}
    url = "http://127.0.0.1:8000/v1/chat/completions"
    command = ["curl", "-sS", url, "-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return str(json.loads(machine.run(command).stdout)["choices"][0]["message"]["content"])


def failed_start(machine: Machine) -> tuple[str, str]:
    """Start the unit, which must fail; return its exit status and its status line, with the unit reset."""
    machine.run("journalctl --rotate && journalctl --vacuum-time=1s", check=False)
    done = machine.run("systemctl start vllm-serve", check=False, timeout=SECONDS_TO_START)
    assert done.returncode != 0, "the unit became active"
    told = show(machine, "ExecMainStatus"), show(machine, "StatusText")
    restarted = show(machine, "SubState") == "auto-restart"
    assert restarted == (told[0] == "75"), "only where waiting may help"
    machine.run("systemctl stop vllm-serve; systemctl reset-failed vllm-serve", check=False)
    return told


def configure(machine: Machine, text: str) -> None:
    machine.write(CONFIG, text)


def test_the_package_starts_nothing_by_itself(machine: Machine) -> None:
    assert machine.run("systemctl is-active vllm-serve", check=False).stdout.strip() == "inactive"
    assert machine.run("systemctl is-enabled vllm-serve", check=False).stdout.strip() == "disabled"
    machine.run("systemd-analyze verify --man=no vllm-serve.service vllm-serve-engine.service")
    example = "vllm-serve-failed@.service"
    machine.run(f"cp /usr/share/doc/vllm-serve/examples/{example} /run/")
    machine.run(f"systemd-analyze verify --man=no /run/{example}")
    machine.run(["vllm-serve", "config", "check"])


def test_the_engine_belongs_to_root_and_the_service_can_not_write_it(machine: Machine) -> None:
    machine.run("systemd-run --wait --pipe -p User=vllm-serve test -r /var/lib/vllm-serve/engines/current/engine.json")
    for path in ("/var/lib/vllm-serve", "/var/lib/vllm-serve/engines", "/var/lib/vllm-serve/engines/current/bin"):
        tried = machine.run(f"runuser -u vllm-serve -- touch {path}/x", check=False)
        assert "Permission denied" in tried.stderr


def test_a_start_returns_when_the_model_answers_and_not_earlier(machine: Machine) -> None:
    machine.run("systemctl start vllm-serve", timeout=SECONDS_TO_START)
    assert ask(machine, "What is the capital of France?") == "The capital of France is Paris."
    assert ask(machine, "What is 3 + 4?") == "3 + 4 = 7."
    assert show(machine, "ActiveState") == "active"
    assert show(machine, "StatusText") == "serving demo on http://127.0.0.1:8000"
    assert machine.run(["vllm-serve", "status"]).stdout == "serving demo on http://127.0.0.1:8000\n"
    told = journal(machine)
    for line in ("checking the machine", "loading demo: loading weights", "asking the self-test of demo"):
        assert line in told
    assert told.index("self-test: ") < told.index("serving demo on")


def test_what_the_operator_accepts_is_the_measure_from_then_on(machine: Machine) -> None:
    machine.run("umask 077 && vllm-serve selftest --record", timeout=120)
    machine.run("systemctl kill -s USR1 --kill-whom=main vllm-serve")
    asked = "journalctl --no-pager --output=cat --unit=vllm-serve | grep 'self-test: baseline-logprobs: '"
    machine.run(f'timeout 60 sh -c "until {asked}; do sleep 0.5; done"', timeout=90)
    assert machine.run(asked).stdout.splitlines()[0].endswith('"mean 0, largest 0" as it should')
    assert show(machine, "ActiveState") == "active"
    assert machine.run(["vllm-serve", "selftest", "--only", "baseline-logprobs"]).returncode == 0
    assert "removed /var/lib/vllm-serve/baselines/" in machine.run(["vllm-serve", "selftest", "--forget"]).stdout


def test_the_engines_lines_have_a_name_and_priorities_of_their_own(machine: Machine) -> None:
    lines = machine.run("journalctl --no-pager --output=json --identifier=vllm").stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    assert all(entry["_SYSTEMD_UNIT"] == "vllm-serve.service" for entry in entries)
    texts = {str(entry["MESSAGE"]): entry for entry in entries}
    loading = next(entry for text, entry in texts.items() if "Starting to load model" in text)
    assert loading["PRIORITY"] == "6"
    assert loading["LOGGER_NAME"].startswith("vllm."), "a field that cysystemd sends"
    assert any(entry["PRIORITY"] == "4" for entry in entries)
    once = [text for text in (str(entry["MESSAGE"]) for entry in entries) if "Starting to load model" in text]
    assert len(once) == 1, "each line once"


def test_the_supervisor_and_the_engine_are_not_root(machine: Machine) -> None:
    group = "/sys/fs/cgroup/system.slice/vllm-serve.service/cgroup.procs"
    users = machine.run(f"xargs ps -o user= -p < {group} | sort -u").stdout.split()
    assert users in (["vllm-se+"], ["vllm-serve"]), "ps shortens long names"


def test_a_reload_is_a_restart_of_vllm_that_the_command_waits_for(machine: Machine) -> None:
    before = machine.run("pgrep -f '[b]in/vllm serve'").stdout
    supervisor = show(machine, "MainPID")
    configure(machine, SHIPPED + "\n[vllm]\nmax_num_seqs = 4\n")
    machine.run("systemctl reload vllm-serve", timeout=SECONDS_TO_START)
    after = machine.run("pgrep -af '[b]in/vllm serve'").stdout
    assert "--max-num-seqs 4" in after
    assert after.split()[0] != before.split()[0]
    assert show(machine, "MainPID") == supervisor
    assert ask(machine, "What is 3 + 4?") == "3 + 4 = 7."


def test_a_broken_file_is_refused_and_vllm_stays_untouched(machine: Machine) -> None:
    before = machine.run("pgrep -f '[b]in/vllm serve'").stdout
    configure(machine, SHIPPED + "\n[api]\nprot = 8000\n")
    done = machine.run("systemctl reload vllm-serve", check=False)
    assert done.returncode != 0
    assert "[api] prot: unknown key; did you mean port?" in journal(machine)
    machine.run("kill -HUP $(systemctl show --value -p MainPID vllm-serve)")
    deadline = time.monotonic() + 20
    while "last reload refused" not in show(machine, "StatusText"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert show(machine, "ActiveState") == "active"
    assert machine.run("pgrep -f '[b]in/vllm serve'").stdout == before
    assert ask(machine, "What is 3 + 4?") == "3 + 4 = 7."


def test_a_model_that_does_not_serve_is_rolled_back(machine: Machine) -> None:
    """The file asks for a longer context than the model has, which vLLM refuses."""
    configure(machine, SHIPPED + "\n[vllm]\nmax_model_len = 100000\n")
    done = machine.run("systemctl reload vllm-serve", check=False, timeout=SECONDS_TO_START)
    assert done.returncode != 0
    assert "reload rolled-back: the engine ended by itself (exit status 1): " in journal(machine)
    assert "User-specified max_model_len (100000) is greater than the derived max_model_len" in journal(machine)
    assert show(machine, "ActiveState") == "active"
    assert ask(machine, "What is 3 + 4?") == "3 + 4 = 7."


def test_logrotate_rotates_the_optional_log(machine: Machine) -> None:
    machine.run("runuser -u vllm-serve -- sh -c 'echo line >/var/log/vllm-serve/engine.log'")
    machine.run("logrotate --force /etc/logrotate.d/vllm-serve")
    assert machine.run("ls /var/log/vllm-serve").stdout.split() == ["engine.log", "engine.log.1"]
    assert machine.read("/var/log/vllm-serve/engine.log") == ""


def test_a_stop_leaves_no_process_and_no_shared_memory(machine: Machine) -> None:
    configure(machine, SHIPPED)
    machine.run("systemctl stop vllm-serve", timeout=60)
    assert show(machine, "Result") == "success"
    assert machine.run("pgrep -u vllm-serve", check=False).stdout == ""
    assert machine.run("find /dev/shm -user vllm-serve").stdout == ""


def test_a_damaged_model_does_not_become_ready_though_its_health_is_200(machine: Machine, tmp_path: Path) -> None:
    damaged = exchange_layers(TREE / "demo/model", tmp_path / "damaged", 1, 2)
    machine.run(["mkdir", "-p", MODEL])
    for file in sorted(damaged.iterdir()):
        put(machine, file, f"{MODEL}/{file.name}")
    configure(machine, f'recipe = "demo"\n[model]\nsource = "{MODEL}"\n')
    probe = "while sleep 0.2; do curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:8000/health; done"
    with machine.start(["sh", "-c", f"{probe} >/tmp/health"]) as health:
        status, text = failed_start(machine)
        health.terminate()
    codes = machine.read("/tmp/health").split()
    assert status == "69"
    assert text.startswith("failed: self-test: fingerprint: the model gives other probabilities than its reference")
    assert '" instead of "mean at most 0.08, largest at most 0.8"' in text
    assert "200" in codes
    assert set(codes) <= {"000", "200"}, "vLLM's own /health never said anything else"
    shown = machine.run("journalctl --no-pager --output=cat --unit=vllm-serve").stdout
    assert text in shown


def put(machine: Machine, file: Path, path: str) -> None:
    """Copy a file of any content into the machine."""
    machine.write(f"{path}.base64", base64.encodebytes(file.read_bytes()).decode())
    machine.run(f"base64 -d {path}.base64 >{path} && rm {path}.base64 && chmod 644 {path}")


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ('recpie = "demo"\n', "78", "/etc/vllm-serve.toml:1: recpie: unknown key; did you mean recipe?"),
        ('recipe = "demo"\n[api]\nport = "8000"\n', "78", '[api] port: found "8000", wants a port number'),
        (
            'recipe = "demo"\n[model]\nsource = "/models/none"\n',
            "78",
            "checkpoint.folder: there is no folder /models/none",
        ),
        ('recipe = "demo"\n[engine]\nuse = "vllm-1"\n', "78", "build.engine: no usable vLLM under"),
        ('recipe = "demo"\n[vllm]\nno_such_flag = 1\n', "78", "[vllm] no_such_flag: vLLM 0.32.0 has no such flag"),
    ],
)
def test_a_mistake_is_one_clear_error_and_no_restart(machine: Machine, text: str, status: str, told: str) -> None:
    configure(machine, text)
    code, line = failed_start(machine)
    assert (code, told in line) == (status, True), line


def test_a_missing_file_is_one_clear_error_and_no_restart(machine: Machine) -> None:
    machine.run(f"mv {CONFIG} /tmp/")
    code, line = failed_start(machine)
    machine.run(f"mv /tmp/vllm-serve.toml {CONFIG}")
    assert (code, line) == ("78", f"failed: {CONFIG}: can't be read: No such file or directory")


def test_a_taken_port_is_told_and_waited_for(machine: Machine) -> None:
    configure(machine, SHIPPED)
    with machine.start("exec python3 -m http.server --bind 127.0.0.1 8000") as other:
        machine.run("until ss -ltn | grep -q :8000; do sleep 0.1; done")
        code, line = failed_start(machine)
        other.terminate()
    assert code == "75"
    assert line.startswith("failed: network.port: can't listen on 127.0.0.1 port 8000: Address already in use")


def test_without_an_engine_and_a_network_the_start_fails_at_once_and_says_what_to_do(
    machine: Machine, debian: Path, package: Path, cache: Path
) -> None:
    """Last: it makes a machine of its own, and the module's makes room for it."""
    machine.power_off()
    with appliance_machine(debian, package, cache, "private", engine=False) as bare:
        start = time.monotonic()
        code, line = failed_start(bare)
        assert time.monotonic() - start < 60
        assert code == "75"
        assert "build.engine: no usable vLLM under /var/lib/vllm-serve/engines: no engine is installed" in line
        installer = bare.run("systemctl status --no-pager --full vllm-serve-engine", check=False).stdout
        assert "the package index can't be reached" in installer
        assert "vllm-serve engine install --wheelhouse DIR" in installer
        bare.run("apt-get purge -y -qq vllm-serve")
        places = "/etc /usr /var/lib /var/cache /var/log"
        left = bare.run(f"find {places} -name '*vllm-serve*' -not -path '/var/lib/dpkg/*'").stdout
        assert left == ""
