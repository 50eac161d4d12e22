"""What tuning found, on disk: one small JSON file for each verdict, named after its key.

    CACHE_DIR/tuning/3f/3f9a...e1.json

The key is a hash of everything that was measured, the chip and the versions, so nothing is ever
overwritten with something else. A file is written beside its place and renamed, so any
number of processes may share a folder. What cannot be read is a miss; a folder that cannot be
written keeps nothing, which one line in the log tells.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import logging
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tpu_inductor.tune.verdict import Rated, Verdict

log = logging.getLogger("tpu_inductor")

FORMAT = 2
"""Of the files. A file of another format is a miss."""


def versions() -> tuple[str, ...]:
    """The versions that a time depends on: `("jax 0.10.2", ...)`."""
    return tuple(f"{name} {_version(name)}" for name in ("tpu_inductor", "jax", "libtpu"))


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class TuningStore:
    """The verdicts in one folder, for one set of versions."""

    folder: Path
    versions: tuple[str, ...]

    @staticmethod
    def open(cache_dir: Path) -> "TuningStore":
        """The store of this installation. Nothing is made on disk yet."""
        return TuningStore(cache_dir / "tuning", versions())

    def key(self, parts: Iterable[str]) -> str:
        """A hash of `parts` and the versions."""
        text = json.dumps([FORMAT, *self.versions, *parts])
        return hashlib.sha256(text.encode()).hexdigest()

    def load(self, key: str) -> Verdict | None:
        """What was saved under `key`; None where there is nothing that can be used."""
        path = self._path(key)
        try:
            return _read(json.loads(path.read_bytes()), key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            log.debug("%s is no verdict of tuning and is ignored: %s", path, error)
            return None

    def save(self, verdicts: Mapping[str, Verdict]) -> None:
        """Keeps verdicts by key. Where that cannot be done they are lost, and the log tells."""
        try:
            for key, verdict in verdicts.items():
                self._write(self._path(key), _record(key, verdict))
        except OSError as error:
            log.warning("what tuning found is not kept on disk: %s", error)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def _write(self, path: Path, record: Mapping[str, Any]) -> None:
        for folder in (self.folder.parent, self.folder, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".new_", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)


def _record(key: str, verdict: Verdict) -> dict[str, Any]:
    return {"format": FORMAT, "key": key, **dataclasses.asdict(verdict)}


def _read(record: Any, key: str) -> Verdict:
    """A verdict from plain values. Raises ValueError, TypeError or LookupError for other ones."""
    if record["format"] != FORMAT or record["key"] != key:
        raise ValueError("it belongs to something else")
    xla_wins, decisions = record["xla_wins"], record["decisions"]
    if not (isinstance(xla_wins, bool) and isinstance(decisions, dict)):
        raise TypeError("a field has the wrong type")
    best, losers = _rated(record["best"]), tuple(_rated(each) for each in record["losers"])
    xla = None if record["xla"] is None else _rated(record["xla"])
    if best.us is None or (xla_wins and (xla is None or xla.us is None)):
        raise ValueError("what was compared has no time")
    return Verdict(cast(dict[str, Any], decisions), best, xla, xla_wins, losers)


def _rated(record: Any) -> Rated:
    what, us, note = record["what"], record["us"], record["note"]
    if not (isinstance(what, str) and isinstance(note, str)):
        raise TypeError("a name is no text")
    if us is not None and not (isinstance(us, float) and math.isfinite(us) and us >= 0):
        raise ValueError(f"{us!r} is no time")
    return Rated(what, us, note)
