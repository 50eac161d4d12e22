"""One workload on one chip against XLA: the row, its verdict, and the geomean of many rows.

XLA's time is that of its fastest spelling, of the graph's primitives or written by hand. All ratios
are of cold times, XLA's over ours: above 1 we are faster. In geomeans a family of workloads has one
vote, the geomean of its rows, however many they are.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bounds import Bound
from figures import Figure

TIE = 1.1
"""Estimates that differ by less are equal."""

PATHOLOGICAL = 4.0
"""XLA's own code that takes this many times the bound is no opponent, unless it sorts."""

VERDICTS = ("faster", "tie", "slower", "none")

GEOMEAN_BAR = 1.25
SLOWEST_BAR = 0.98
SHARE_BAR = 0.9


@dataclass(frozen=True, slots=True)
class KernelFigure:
    """A kernel of a program, all `calls` of it together, on one JAX device."""

    name: str
    calls: int
    operators: str
    template: str
    tiles: str
    time_us: float
    flops: int
    hbm_bytes: int


@dataclass(frozen=True, slots=True)
class Row:
    """A workload on one chip. `bound` is None where it was not lowered at all."""

    workload: str
    family: str
    chip: str
    bound: Bound | None
    has_sort: bool
    ours: Figure
    xla: Figure
    by_hand: Figure
    kernels: tuple[KernelFigure, ...] = ()
    kernel_count: int = 0
    left_to_xla: tuple[str, ...] = ()

    @property
    def best_xla(self) -> Figure | None:
        """The faster spelling of those that compile."""
        spelled = [f for f in (self.xla, self.by_hand) if f.ok]
        return min(spelled, key=lambda f: f.time_us) if spelled else None

    @property
    def ratio(self) -> float | None:
        best = self.best_xla
        return best.time_us / self.ours.time_us if best and self.ours.ok else None

    @property
    def warm_ratio(self) -> float | None:
        """The faster warm spelling of XLA over ours warm."""
        spelled = [f.warm_us for f in (self.xla, self.by_hand) if f.ok]
        return min(spelled) / self.ours.warm_us if spelled and self.ours.ok else None

    @property
    def share(self) -> float | None:
        """How much of our time the bound is."""
        return self.bound.time_us / self.ours.time_us if self.bound and self.ours.ok else None

    @property
    def is_memory(self) -> bool:
        """Whether the HBM decides the bound."""
        return self.bound is not None and self.bound.is_memory

    @property
    def is_trusted(self) -> bool:
        best = self.best_xla
        return self.ours.is_trusted and best is not None and best.is_trusted

    @property
    def is_pathological(self) -> bool:
        best = self.best_xla
        if best is None or self.bound is None or self.has_sort:
            return False
        return best.time_us > PATHOLOGICAL * self.bound.time_us

    @property
    def counts(self) -> bool:
        """Whether the row counts in summaries."""
        return self.ratio is not None and self.is_trusted and not self.is_pathological

    @property
    def verdict(self) -> str:
        return judge(self.ratio)

    @property
    def notes(self) -> tuple[str, ...]:
        figures = {"ours": self.ours, "XLA": self.xla, "by hand": self.by_hand}
        found = [f"{name} fails: {_first_line(f.error)}" for name, f in figures.items() if f.error]
        found += [f"{name} not trusted: {f.doubts}" for name, f in figures.items() if f.doubts]
        if self.is_pathological:
            found.append(f"XLA above {PATHOLOGICAL:g}x of the bound: not counted")
        return tuple(found)

    @staticmethod
    def of_json(values: Mapping[str, Any]) -> "Row":
        """The row that `as_json` told of."""
        bound = values["bound"]
        return Row(
            values["workload"],
            values["family"],
            values["chip"],
            bound and Bound(bound["hbm_bytes"], bound["hbm_us"], bound["mxu_us"]),
            values["has_sort"],
            *(Figure(**values[name]) for name in ("ours", "xla", "by_hand")),
            tuple(KernelFigure(**kernel) for kernel in values["kernels"]),
            values["kernel_count"],
            tuple(values["left_to_xla"]),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON; times in us."""
        bound = self.bound
        return {
            "workload": self.workload,
            "family": self.family,
            "chip": self.chip,
            "has_sort": self.has_sort,
            "ours": self.ours.as_json(),
            "xla": self.xla.as_json(),
            "by_hand": self.by_hand.as_json(),
            "bound": bound
            and {**asdict(bound), "time_us": bound.time_us, "is_memory": bound.is_memory},
            "ratio": self.ratio,
            "warm_ratio": self.warm_ratio,
            "share_of_bound": self.share,
            "verdict": self.verdict,
            "is_trusted": self.is_trusted,
            "is_pathological": self.is_pathological,
            "counts": self.counts,
            "kernel_count": self.kernel_count,
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "left_to_xla": list(self.left_to_xla),
            "notes": list(self.notes),
        }


def judge(ratio: float | None) -> str:
    """`faster`, `tie`, `slower`, or `none` where something could not be priced."""
    if ratio is None:
        return "none"
    if ratio > TIE:
        return "faster"
    return "slower" if ratio < 1 / TIE else "tie"


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows of one chip. Geomeans are of `families`, those of memory-bound rows and of others.

    `least_share` is of memory-bound rows that have a kernel: what XLA runs alone is XLA's.
    """

    chip: str
    geomean: float | None
    families: Mapping[str, float]
    memory_rows: int
    compute_geomean: float | None
    compute_families: Mapping[str, float]
    compute_rows: int
    slowest: str
    slowest_ratio: float | None
    least_share: float | None
    least_share_of: str
    verdicts: Mapping[str, int]
    not_counted: tuple[str, ...]

    @staticmethod
    def of(chip: str, rows: Sequence[Row]) -> "Summary":
        """Of the rows of `chip`; those that are not trusted or pathological do not count."""
        mine = [row for row in rows if row.chip == chip]
        counted = [row for row in mine if row.counts]
        memory = [row for row in counted if row.is_memory]
        compute = [row for row in counted if not row.is_memory]
        shares = [(r.share, r.workload) for r in memory if r.kernel_count and r.share is not None]
        ratios = [(row.ratio, row.workload) for row in counted if row.ratio is not None]
        slowest, least = min(ratios, default=None), min(shares, default=None)
        families, compute_families = family_ratios(memory), family_ratios(compute)
        return Summary(
            chip,
            geomean(families.values()),
            families,
            len(memory),
            geomean(compute_families.values()),
            compute_families,
            len(compute),
            slowest[1] if slowest else "",
            slowest[0] if slowest else None,
            least[0] if least else None,
            least[1] if least else "",
            {name: sum(row.verdict == name for row in mine) for name in VERDICTS},
            tuple(row.workload for row in mine if not row.counts),
        )

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def family_ratios(rows: Iterable[Row]) -> dict[str, float]:
    """The geomean of the ratios of each family."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row.ratio is not None:
            ratios.setdefault(row.family, []).append(row.ratio)
    return {family: mean for family, of in ratios.items() if (mean := geomean(of)) is not None}


def geomean(ratios: Iterable[float]) -> float | None:
    """The geometric mean, None of nothing."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0][:160]
