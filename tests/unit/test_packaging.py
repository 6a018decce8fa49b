"""The package says what the code says, and its units keep their promises."""

import ast
import grp
import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
UNITS = ("vllm-serve", "vllm-serve-engine", "vllm-serve-devices")
Unit = dict[tuple[str, str], list[str]]

PACKAGE_OF = {"cattrs": "python3-cattr"}
"""Where the Debian package of a module is not python3-MODULE."""

# In pieces, so that this file does not hold what it looks for.
REGISTRIES = ("pypi" + ".org", "python" + "hosted.org")
BUILD_MACHINE = re.compile(r"(?<![\w.~-])/(work|root)/")


def unit_of(name: str) -> Unit:
    """Read a unit file into (section, key) -> values; systemd's keys repeat, so no configparser."""
    unit: Unit = {}
    section = ""
    for line in (ROOT / "systemd" / f"{name}.service").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            key, equals, value = line.partition("=")
            assert equals, f"{name}: {line}"
            unit.setdefault((section, key), []).append(value)
    return unit


def words(unit: Unit, section: str, key: str) -> list[str]:
    """Return every word of a key that may repeat."""
    return " ".join(unit.get((section, key), [])).split()


def installed_patterns() -> list[str]:
    """Return the sources that debian/*.install names."""
    lines = [
        line.split()[0]
        for file in sorted((ROOT / "debian").glob("*.install"))
        for line in file.read_text().splitlines()
        if line.strip()
    ]
    assert lines
    return lines


def imported_modules() -> set[str]:
    """Return the modules from outside the standard library that the code imports, by first name."""
    names: set[str] = set()
    for file in (ROOT / "appliance").rglob("*.py"):
        if "vendor" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Import(names=aliases):
                    names.update(alias.name for alias in aliases)
                case ast.ImportFrom(module=str(module), level=0):
                    names.add(module)
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"appliance"}


def project_files() -> Iterator[Path]:
    """Yield the files that git tracks or would track."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    yield from (ROOT / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name)


def test_changelog_and_code_name_the_same_version() -> None:
    first = (ROOT / "debian/changelog").read_text().splitlines()[0]
    code = (ROOT / "appliance/__init__.py").read_text()
    assert re.findall(r"^vllm-serve \((.+?)\)", first) == re.findall(r'^__version__ = "(.+)"$', code, re.MULTILINE)


@pytest.mark.parametrize("pattern", installed_patterns())
def test_every_installed_file_exists(pattern: str) -> None:
    assert list(ROOT.glob(pattern)), f"debian/*.install names {pattern}"


def test_the_package_depends_on_what_the_code_imports() -> None:
    depends = (ROOT / "debian/control").read_text().partition("\nDepends:")[2].partition("\n\n")[0]
    packages = set(re.findall(r"^(?:Depends:)?\s*([a-z0-9-]+)", depends, re.MULTILINE))
    wanted = {PACKAGE_OF.get(name, f"python3-{name}") for name in imported_modules()}
    assert wanted <= packages


def test_every_installed_manual_page_has_its_source() -> None:
    for line in (ROOT / "debian/vllm-serve.manpages").read_text().split():
        assert (ROOT / "man" / f"{Path(line).name}.md").is_file()
        assert Path(line).name in (ROOT / "debian/rules").read_text()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("ExecStart", "/usr/bin/vllm-serve serve --config /etc/vllm-serve.toml"),
        ("ExecReload", "/usr/bin/vllm-serve reload --config /etc/vllm-serve.toml"),
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "69 78"),
        ("KillMode", "mixed"),
        ("User", "vllm-serve"),
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("RemoveIPC", "yes"),
        ("PrivateDevices", "no"),
    ],
)
def test_the_main_unit_keeps_its_promises(key: str, value: str) -> None:
    assert unit_of("vllm-serve")["Service", key] == [value]


@pytest.mark.parametrize("key", ["MemoryDenyWriteExecute", "ProcSubset", "ProtectClock"])
def test_nothing_that_breaks_an_engine_is_set(key: str) -> None:
    assert ("Service", key) not in unit_of("vllm-serve")
    assert ("Service", key) not in unit_of("vllm-serve-engine")


def test_the_main_unit_allows_what_engines_need() -> None:
    unit = unit_of("vllm-serve")
    assert "AF_NETLINK" in words(unit, "Service", "RestrictAddressFamilies")
    assert "pidfd_getfd" in words(unit, "Service", "SystemCallFilter")
    assert "~@resources" not in words(unit, "Service", "SystemCallFilter")


def test_the_restart_limit_outlasts_slow_starts() -> None:
    unit = unit_of("vllm-serve")
    assert unit["Unit", "StartLimitIntervalSec"] == ["3h"]
    assert unit["Unit", "StartLimitBurst"] == ["5"]


@pytest.mark.parametrize("key", ["StateDirectory", "CacheDirectory"])
def test_engines_lie_in_a_folder_that_the_service_does_not_own(key: str) -> None:
    (own,) = unit_of("vllm-serve")["Service", key]
    (other,) = unit_of("vllm-serve-engine")["Service", key]
    assert own.startswith("vllm-serve/")
    assert other.startswith("vllm-serve/")
    assert own != other


def test_devices_come_first_then_the_engine_then_the_service() -> None:
    main, engine, devices = map(unit_of, UNITS)
    before = ["vllm-serve-devices.service", "vllm-serve-engine.service"]
    assert set(before) <= set(words(main, "Unit", "Wants")) & set(words(main, "Unit", "After"))
    assert before[0] in words(engine, "Unit", "After")
    assert "vllm-serve.service" in words(engine, "Unit", "Before")
    assert "vllm-serve.service" in words(devices, "Unit", "Before")


def test_the_installer_runs_at_each_start_and_reports() -> None:
    unit = unit_of("vllm-serve-engine")
    assert unit["Service", "Type"] == ["oneshot"]
    assert unit["Service", "NotifyAccess"] == ["main"]
    assert unit["Service", "TimeoutStartSec"] == ["infinity"]
    assert unit["Service", "CapabilityBoundingSet"] == [""]
    assert ("Service", "RemainAfterExit") not in unit
    assert ("Service", "User") not in unit


def test_the_device_unit_has_no_condition_that_loses_the_boot_race() -> None:
    conditions = words(unit_of("vllm-serve-devices"), "Unit", "ConditionPathExists")
    assert conditions
    assert not [path for path in conditions if "/dev/" in path]


def test_only_the_main_unit_can_be_enabled() -> None:
    assert [name for name in UNITS if ("Install", "WantedBy") in unit_of(name)] == ["vllm-serve"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_main_unit_is_as_closed_as_agreed() -> None:
    check = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager"]
    unit = str(ROOT / "systemd/vllm-serve.service")
    done = subprocess.run([*check, unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]


def test_the_shipped_configuration_is_short_and_serves_the_demonstration() -> None:
    text = (ROOT / "etc/vllm-serve.toml").read_text()
    assert tomllib.loads(text) == {"recipe": "demo"}
    assert len(text.splitlines()) <= 15


@pytest.mark.skipif(shutil.which("logrotate", path=SYSTEM_PATH) is None, reason="needs logrotate")
def test_logrotate_understands_the_rule(tmp_path: Path) -> None:
    rule = (ROOT / "etc/logrotate.d/vllm-serve").read_text()
    assert "\tsu vllm-serve vllm-serve\n" in rule
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    here = rule.replace("su vllm-serve vllm-serve", f"su {user} {group}")
    copy = tmp_path / "rule"
    copy.write_text(here.replace("/var/log/vllm-serve", str(tmp_path)))
    copy.chmod(0o644)
    command = ["logrotate", "-d", "-s", str(tmp_path / "state"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": SYSTEM_PATH})
    assert (done.returncode, re.findall("^error.*", done.stderr, re.MULTILINE)) == (0, [])


def test_a_rotation_never_reloads_the_unit() -> None:
    assert "systemctl" not in (ROOT / "etc/logrotate.d/vllm-serve").read_text()


def test_pynvml_is_the_file_that_its_readme_names() -> None:
    folder = ROOT / "appliance/vendor"
    digest = hashlib.sha256((folder / "pynvml.py").read_bytes()).hexdigest()
    assert digest in (folder / "README.md").read_text()


def test_the_command_prefers_the_checkout_that_holds_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "bin/vllm-serve", tmp_path / "bin")
    (tmp_path / "appliance/cli").mkdir(parents=True)
    (tmp_path / "appliance/cli/main.py").write_text("def main() -> int:\n    return 7\n")
    command = [sys.executable, "-I", str(tmp_path / "bin/vllm-serve")]
    assert subprocess.run(command, check=False).returncode == 7


def test_a_maintainer_without_an_address_is_refused_before_the_build(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "debian").mkdir(parents=True)
    done = subprocess.run(
        [ROOT / "debian/build", "--tree", tree, tmp_path / "build", tmp_path / "out"],
        env={"PATH": SYSTEM_PATH, "VLLM_SERVE_MAINTAINER": "nobody"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert '"nobody"' in done.stderr


def test_no_file_names_a_registry_or_a_build_machine() -> None:
    found: list[str] = []
    for file in project_files():
        try:
            text = file.read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if BUILD_MACHINE.search(line) or any(host in line for host in REGISTRIES):
                found.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found
