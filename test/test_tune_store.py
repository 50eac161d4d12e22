"""What tuning keeps on disk: found again, shared by processes, and never trusted blindly."""

import json
import logging
import subprocess
import sys
from dataclasses import replace

import pytest

from tpu_inductor.tune.store import TuningStore, versions
from tpu_inductor.tune.verdict import Rated, Verdict

VERDICT = Verdict(
    {"template": "rows", "axes": [{"name": "rows", "tile": 8, "chunk": 0}], "grid": ["rows"]},
    Rated("rows, tile 8", 12.5),
    Rated("XLA's code", 20.0, "not to be trusted"),
    False,
    (Rated("rows, tile 16", 13.0), Rated("rows, tile 4", None, "refused by the compiler: no")),
)


@pytest.fixture
def store(tmp_path):
    return TuningStore(tmp_path / "cache" / "tuning", ("jax 1", "libtpu 2"))


def only_file(store):
    (path,) = [p for p in store.folder.rglob("*") if p.is_file()]
    return path


def test_a_verdict_is_found_again(store):
    key = store.key(["region", "v5e"])
    assert store.load(key) is None
    store.save({key: VERDICT})
    assert store.load(key) == VERDICT
    assert store.load(store.key(["region", "v6e"])) is None


def test_files_are_named_after_their_content_and_folders_are_private(store):
    key = store.key(["a"])
    store.save({key: VERDICT})
    path = only_file(store)
    assert path.name == f"{key}.json"
    assert all(f.stat().st_mode & 0o777 == 0o700 for f in (path.parent, store.folder))


def test_the_parts_of_a_key_do_not_run_together(store):
    assert store.key(["ab", "c"]) != store.key(["a", "bc"])


def test_another_version_is_a_miss(store):
    key = store.key(["a"])
    store.save({key: VERDICT})
    newer = replace(store, versions=("jax 1", "libtpu 3"))
    assert newer.key(["a"]) != key
    assert newer.load(newer.key(["a"])) is None


def test_versions_name_all_that_a_time_depends_on():
    assert [v.split()[0] for v in versions()] == ["tpu_inductor", "jax", "libtpu"]


def damage(change):
    """Text with one field of a record changed."""

    def apply(text):
        record = json.loads(text)
        change(record)
        return json.dumps(record)

    return apply


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "null",
        lambda text: "{}",
        lambda text: "[" * 100_000,
        lambda text: text.replace("12.5", "NaN"),
        lambda text: text.replace("12.5", "-1.0"),
        lambda text: text.replace("12.5", "null"),
        lambda text: text.replace("12.5", '"fast"'),
        damage(lambda r: r.update(format=0)),
        damage(lambda r: r.update(key="0" * 64)),
        damage(lambda r: r.update(decisions=[])),
        damage(lambda r: r.update(losers=3)),
        damage(lambda r: r.update(xla=None, xla_wins=True)),
        damage(lambda r: r["best"].pop("what")),
    ],
)
def test_what_is_truncated_or_foreign_is_a_miss(store, spoil, caplog):
    key = store.key(["a"])
    store.save({key: VERDICT})
    path = only_file(store)
    path.write_text(spoil(path.read_text()))
    with caplog.at_level(logging.DEBUG, "tpu_inductor"):
        assert store.load(key) is None
    assert "is ignored" in caplog.text
    store.save({key: VERDICT})
    assert store.load(key) == VERDICT


def test_bytes_that_are_no_text_and_folders_are_misses(store):
    key = store.key(["a"])
    store.save({key: VERDICT})
    path = only_file(store)
    path.write_bytes(b"\xff\xfe\x00")
    assert store.load(key) is None
    path.unlink()
    path.mkdir()
    assert store.load(key) is None


@pytest.mark.parametrize("blocked", ["cache", "cache/tuning"])
def test_where_nothing_can_be_written_nothing_is_kept(store, tmp_path, blocked, caplog):
    # A file in the place of a folder stops root too, whom permissions do not.
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("")
    verdicts = {store.key([name]): VERDICT for name in "abc"}
    store.save(verdicts)
    assert [store.load(key) for key in verdicts] == [None] * 3
    assert caplog.text.count("is not kept on disk") == 1


def test_a_folder_that_is_read_only_keeps_nothing(store, caplog, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    store.save({store.key(["a"]): VERDICT})
    assert "Permission denied" in caplog.text
    assert store.load(store.key(["a"])) is None


def test_a_full_disk_leaves_no_rest(store, caplog, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("json.dump", refuse)
    store.save({store.key(["a"]): VERDICT})
    assert "No space left" in caplog.text
    assert [p for p in store.folder.rglob("*") if p.is_file()] == []


WRITER = """
import sys
from pathlib import Path
from tpu_inductor.tune.store import TuningStore
from tpu_inductor.tune.verdict import Rated, Verdict

store = TuningStore(Path(sys.argv[1]), ("1",))
verdict = Verdict({"x": "y" * 20_000}, Rated("a", 1.0), None, False)
for round in range(100):
    key = store.key([str(round % 5)])
    found = store.load(key)
    assert found in (None, verdict), found
    # Nothing that was complete once is ever seen incomplete.
    assert found is not None or round < 5, round
    store.save({key: verdict})
"""


def test_processes_share_a_folder(tmp_path):
    folder = tmp_path / "tuning"
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [writer.communicate(timeout=120)[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], errors
    assert len(list(folder.rglob("*.json"))) == 5
    assert not list(folder.rglob(".new_*"))
