"""Times that others measured on real TPUs, and which of them are compared with our clock.

The table is a CSV of what the tuner of the library tokamax recorded: chip, implementation,
median_us, problem and config, these two as JSON. Nothing of it was measured by us.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tpu_inductor.aot.messages import Argument

KINDS = {
    "pallas_mosaic_tpu_flash_attention": "splash attention",
    "pallas_mosaic_tpu_ragged_dot": "grouped matmul",
    "xla_chunked_dot_product_attention": "XLA chunked attention",
    "gated_linear_unit": "XLA gated linear unit",
}
"""What is compared, by the implementation's name in the table: two kernels, two of XLA's own."""

LEAST_US, MOST_US = 20.0, 6000.0
"""Times are whole microseconds, and what takes long takes long to price."""

OPERANDS = ("q", "k", "v", "bias", "x", "weights", "lhs", "rhs")
"""The arrays of a problem, in the order in which programs take them; a mask is the last."""

_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_DTYPES = {"bf16": "bfloat16", "f32": "float32", "bool": "bool", "i32": "int32"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One program on one chip, and the median of its times there. `problem`, `config`: JSON."""

    chip: str
    kind: str
    time_us: float
    problem: str
    config: str

    @property
    def key(self) -> str:
        return " ".join((self.chip, self.kind, self.problem, self.config))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arrays that its program takes. Raises ValueError for a type without a name here."""
        problem = json.loads(self.problem)
        arrays = [problem[name] for name in OPERANDS if name in problem]
        mask = problem.get("mask")
        if isinstance(mask, dict) and "bool_mask" in mask:
            arrays.append(mask["bool_mask"])
        return tuple(map(parse_array, arrays))


def parse_array(text: str) -> Argument:
    """`bf16[8,128]` as ((8, 128), "bfloat16"). Raises ValueError for what is no such array."""
    match = _ARRAY.fullmatch(text)
    if match is None or match[1] not in _DTYPES:
        raise ValueError(f"{text} is no array of {', '.join(_DTYPES)}")
    return tuple(int(n) for n in match[2].split(",") if n), _DTYPES[match[1]]


def read_measured(file: Path) -> list[Measured]:
    """The rows of a table that can be compared at all."""
    with file.open(newline="") as text:
        return [m for row in csv.DictReader(text) if (m := _comparable(row)) is not None]


def _comparable(row: dict[str, str]) -> Measured | None:
    """None for other implementations, for times out of range, for types that XLA emulates."""
    kind, time_us = KINDS.get(row["implementation"]), float(row["median_us"])
    if kind is None or not LEAST_US <= time_us <= MOST_US:
        return None
    measured = Measured(row["chip"], kind, time_us, row["problem"], row["config"])
    problem = json.loads(measured.problem)
    if "f16[" in measured.problem.replace("bf16[", "") or not _is_known(problem):
        return None
    return measured


def _is_known(problem: Any) -> bool:
    """Whether the code alone tells what runs, and not the sizes of groups."""
    sizes = problem.get("group_sizes")
    if isinstance(sizes, list):
        return sum(size > 0 for size in sizes) == 1
    return sizes is None


def choose(rows: Iterable[Measured], count: int) -> list[Measured]:
    """Of each chip and kind `count` rows, evenly spaced in the order of their times, ends included.

    What is chosen depends on the table alone, and on nothing that is estimated. The shortest of all
    come first, so that a run that is stopped has some of each.
    """
    spread = [_spread(group, count) for group in _by_kind(rows)]
    return [row for rank in zip_longest(*spread) for row in rank if row is not None]


def _by_kind(rows: Iterable[Measured]) -> Iterator[list[Measured]]:
    groups: dict[tuple[str, str], list[Measured]] = {}
    for row in rows:
        groups.setdefault((row.chip, row.kind), []).append(row)
    for name in sorted(groups):
        yield sorted(groups[name], key=lambda row: (row.time_us, row.key))


def _spread(rows: Sequence[Measured], count: int) -> list[Measured]:
    if len(rows) <= count:
        return list(rows)
    step = (len(rows) - 1) / (count - 1)
    return [rows[round(i * step)] for i in range(count)]
