"""Shared memory that an engine leaves: only its own, and only what nobody uses."""

from pathlib import Path

from appliance.engine.leftover import names_in, remove_leftovers, segments_of


def machine(root: Path) -> Path:
    """Make /proc with an engine, pid 7, and /dev/shm with its segment, a folder and a stranger's."""
    for folder in ("proc/7/fd", "proc/8/fd", "dev/shm/model"):
        (root / folder).mkdir(parents=True)
    for name in ("psm_1", "psm_old", "psm_shared", "strange", "model/w.safetensors"):
        (root / "dev/shm" / name).touch()
    line = "7f00-7f01 rw-s 00000000 00:01 12  /dev/shm/{}\n"
    mapped = "".join(map(line.format, ("psm_1", "psm_old", "psm_shared", "model/w.safetensors", "gone (deleted)")))
    (root / "proc/7/maps").write_text(mapped)
    (root / "proc/8/maps").write_text(line.format("psm_shared"))
    return root


def test_a_segment_is_what_a_member_uses_and_no_file_in_a_folder(tmp_path: Path) -> None:
    assert segments_of(machine(tmp_path), [7]) == {"psm_1", "psm_old", "psm_shared"}


def test_only_what_nobody_uses_any_more_is_removed(tmp_path: Path) -> None:
    root = machine(tmp_path)
    assert "psm_old" in names_in(root)
    (root / "proc/7/maps").unlink()
    assert remove_leftovers(root, {"psm_1", "psm_shared"}) == ("psm_1",)
    assert names_in(root) == {"psm_old", "psm_shared", "strange", "model"}
