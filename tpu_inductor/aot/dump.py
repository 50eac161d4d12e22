"""Reads the folder into which libtpu dumped one compilation: listings, and VMEM in use.

`options.prepare_libtpu(dump_to=folder)` makes libtpu dump. What is not read is ignored.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tpu_inductor.aot.bundles import Listing, parse_bundles
from tpu_inductor.errors import DumpError

TOP_LEVEL_PROGRAM = "TLP"

_LISTING = re.compile(r"\d+-(.+)-\d+-final_bundles\.txt$")
_DUPLICATES = re.compile(r"key:(.*)\n.*\n.*\n((?:  .*\n?)*)")
_VMEM_REPORT = "const DATA ="

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dump:
    """By name of the HLO instruction: its listing, and the bytes of scoped VMEM that it uses."""

    listings: Mapping[str, Listing]
    vmem_bytes: Mapping[str, int]


def read_dump(folder: Path) -> Dump:
    """What libtpu dumped into `folder`. Raises DumpError if it holds no top level program."""
    files = sorted(folder.iterdir())
    # A later compilation of the same thing wins.
    paths = {match[1]: path for path in files if (match := _LISTING.match(path.name))}
    if TOP_LEVEL_PROGRAM not in paths:
        raise DumpError(
            f"libtpu dumped no top level program into {folder}; call "
            "options.prepare_libtpu(dump_to=...) before JAX loads libtpu, and let no compilation "
            "come from JAX's persistent cache"
        )
    listings = {
        name: parse_bundles(path.read_text())
        for name, path in paths.items()
        if not name.startswith("<late")
    }
    vmem_bytes: dict[str, int] = {}
    for path in (p for p in files if p.name.endswith("vmem_report.html")):
        vmem_bytes |= _read_vmem(path.read_text())
    for path in (p for p in files if p.name.endswith("deduplication-map.txt")):
        _share(path.read_text(), listings)
        _share(path.read_text(), vmem_bytes)
    return Dump(listings, vmem_bytes)


def _share(duplicates: str, found: dict[str, T]) -> None:
    """Gives instructions that were compiled once for all what was found for the one."""
    for key, names in _DUPLICATES.findall(duplicates):
        if key in found:
            found.update(dict.fromkeys(names.split(), found[key]))


def _read_vmem(report: str) -> dict[str, int]:
    """The sizes in a VMEM report, an HTML page that holds its data as JSON."""
    start = report.find(_VMEM_REPORT)
    if start < 0:
        return {}
    data: Any = json.JSONDecoder().raw_decode(report[start + len(_VMEM_REPORT) :].lstrip())[0]
    return {name: use["total_size"] for name, use in data["hlo_breakdowns"].items()}
