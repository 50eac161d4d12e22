"""How far the cost model's estimates of kernels are from those of the deviceless clock.

Samples --> left out or usable --> Summary, errors and choices
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernel_prices import KernelPrice

LEAST_US = 5.0
"""Kernels that are estimated below this are left out: launches decide their time."""

MISSED = 0.95
"""A price below this share of the time that the bytes of a kernel need has missed copies."""

NEAR = 0.05
"""A choice is good if it is within this of the best candidate that was priced."""

MEDIAN_GOAL, CHOICE_GOAL = 0.15, 0.9
WORST = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """One candidate of one kernel on one chip. `rank` is its place by estimate, the chosen one's 0.

    `floor_us` is how long the kernel's arrays need to pass the HBM once.
    """

    kernel: str
    chip: str
    template: str
    tiling: str
    rank: int
    estimate_us: float
    floor_us: float
    price: KernelPrice

    @property
    def error(self) -> float:
        """Relative: 0.1 where the estimate is a tenth above the clock's."""
        return self.estimate_us / self.price.time_us - 1

    @property
    def doubt(self) -> str:
        """Why the sample does not count, or nothing."""
        if self.price.error:
            return f"no price: {self.price.error}"
        if not self.price.is_trusted:
            return "the clock does not trust its price"
        if self.price.time_us < MISSED * self.floor_us:
            return f"the clock missed copies: the arrays need {self.floor_us:.1f} us"
        return ""

    def as_json(self) -> dict[str, Any]:
        """Plain values, with what follows from them."""
        error = None if self.doubt else round(self.error, 4)
        return asdict(self) | {"error": error, "doubt": self.doubt}


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen candidate of a kernel and the best one by the clock, of at least two."""

    chosen: Sample
    best: Sample

    @property
    def loss(self) -> float:
        """How much longer the chosen one takes."""
        return self.chosen.price.time_us / self.best.price.time_us - 1

    @property
    def is_good(self) -> bool:
        return self.loss <= NEAR


@dataclass(frozen=True, slots=True)
class Summary:
    """What samples that count come to; errors are absolute, None where there are no samples."""

    kernels: int
    candidates: int
    median: float | None
    p90: float | None
    choices: tuple[Choice, ...]

    @staticmethod
    def of(samples: Iterable[Sample]) -> "Summary":
        usable = [s for s in samples if not s.doubt]
        errors = [abs(s.error) for s in usable]
        return Summary(
            len({(s.kernel, s.chip) for s in usable}),
            len(usable),
            statistics.median(errors) if errors else None,
            percentile(errors, 0.9) if errors else None,
            judge_choices(usable),
        )

    @property
    def good_share(self) -> float | None:
        """The share of kernels whose chosen candidate is near the best; None without choices."""
        return sum(c.is_good for c in self.choices) / len(self.choices) if self.choices else None

    def as_json(self) -> dict[str, Any]:
        return {
            "kernels": self.kernels,
            "candidates": self.candidates,
            "median_error": self.median,
            "p90_error": self.p90,
            "choices": len(self.choices),
            "good_share": self.good_share,
        }


def judge_choices(usable: Sequence[Sample]) -> tuple[Choice, ...]:
    """A choice for every kernel of which the chosen and another candidate count."""
    found: list[Choice] = []
    for kernel, chip in dict.fromkeys((s.kernel, s.chip) for s in usable):
        rivals = [s for s in usable if (s.kernel, s.chip) == (kernel, chip)]
        chosen = next((s for s in rivals if s.rank == 0), None)
        if chosen is not None and len(rivals) > 1:
            found.append(Choice(chosen, min(rivals, key=lambda s: s.price.time_us)))
    return tuple(found)


def percentile(values: Sequence[float], share: float) -> float:
    """The least of `values` that at least `share` of them do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def worst(samples: Iterable[Sample], count: int = WORST) -> list[Sample]:
    """The samples whose estimates are furthest off."""
    usable = [s for s in samples if not s.doubt]
    return sorted(usable, key=lambda s: -abs(s.error))[:count]


def spread(candidates: int, wanted: int) -> tuple[int, ...]:
    """Places in a ranking: the first two, and others evenly over its better half.

    Where that half is too short, the places that follow it. spread(21, 4)  -->  (0, 1, 5, 10)
    """
    half = (candidates - 1) // 2
    others = max(wanted - 2, 0)
    evenly = (round(half * i / others) for i in range(1, others + 1))
    places = dict.fromkeys(p for p in (0, 1, *evenly, *range(candidates)) if p < candidates)
    return tuple(sorted(list(places)[:wanted]))
