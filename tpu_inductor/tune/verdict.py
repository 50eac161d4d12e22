"""What a race between schedules, or between a program and XLA's own code, came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.nest import Loop, walk
from tpu_inductor.schedule.types import TileSchedule
from tpu_inductor.tune.select import Measurement, Outcome

Decisions: TypeAlias = Mapping[str, Any]
"""The decisions of a schedule as plain values: enough to find it again among candidates."""

XLA = "XLA's code"


@dataclass(frozen=True, slots=True)
class Rated:
    """A contender and its time in us; without one, `note` says why. Else it may say a doubt."""

    what: str
    us: float | None
    note: str = ""

    def __str__(self) -> str:
        if self.us is None:
            return f"{self.what}: {self.note}"
        return f"{self.what}: {self.us:.1f} us" + (f", {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fastest kernel and XLA's code beside it, if that was measured; the losing kernels.

    `decisions` are the fastest kernel's. The same of whole programs. `xla_wins` says that XLA's
    code is faster by more than noise, or that only XLA's code compiles.
    """

    decisions: Decisions
    best: Rated
    xla: Rated | None
    xla_wins: bool
    losers: tuple[Rated, ...] = ()

    @property
    def is_lasting(self) -> bool:
        """Whether it may be kept: where no kernel was timed, the compiler may have been killed."""
        return self.best.us is not None

    def reason(self, label: str) -> str:
        """Why XLA runs it, where it does. `label` says how times were taken."""
        if self.xla is None or self.xla.us is None or self.best.us is None:
            return f"{self.best.what}: {self.best.note}"
        times = f"{self.xla.us:.1f} us against {self.best.us:.1f} us"
        doubts = {r.note for r in (self.xla, self.best) if r.note}
        return f"XLA's code is faster: {times} ({', '.join((label, *sorted(doubts)))})"

    def __str__(self) -> str:
        rated = [self.xla, self.best] if self.xla_wins else [self.best, self.xla]
        every = [r for r in rated if r is not None]
        return "\n".join(f"  {r}" for r in (*every, *self.losers)) + "\n"


def decisions_of(schedule: TileSchedule) -> Decisions:
    """The template, each axis' extents, and the loops."""
    loops = [node for node in walk(schedule.nest) if isinstance(node, Loop)]
    return {
        "template": schedule.template,
        "axes": [_axis_decisions(axis) for axis in schedule.axes],
        "grid": list(schedule.grid),
        "loops": [[loop.axis, loop.how.value, loop.unroll] for loop in loops],
    }


def _axis_decisions(axis: Axis) -> Decisions:
    return {f.name: getattr(axis, f.name) for f in fields(axis) if f.name != "factors"}


def name_of(schedule: TileSchedule) -> str:
    """How a schedule is called beside others."""
    return f"{schedule.template}, {schedule.reason}"


def rate(what: str, measurement: Measurement) -> Rated:
    """A measurement under a name; of the compiler's error its first line."""
    if measurement.refused:
        lines = measurement.refused.strip().splitlines() or ["it does not say why"]
        return Rated(what, None, f"refused by the compiler: {lines[0]}")
    return Rated(what, measurement.device_us, measurement.doubt)


def judge(contenders: Sequence[tuple[Decisions, str]], outcome: Outcome) -> Verdict | None:
    """The verdict on a race of contenders under their names; XLA's code is the rival.

    None where nothing can be compared: no contender has a time, and not all of them are refused.
    """
    rated = {i: rate(contenders[i][1], m) for i, m in outcome.results.items()}
    rival = outcome.rival or Measurement()
    best = outcome.winner
    if best is None:
        is_refused = all(m.refused for m in outcome.results.values())
        if not is_refused or rival.device_us is None:
            return None
        best, xla_wins = min(rated), True
    else:
        xla_wins = outcome.rival_wins
    losers = sorted(
        (r for i, r in rated.items() if i != best),
        key=lambda r: float("inf") if r.us is None else r.us,
    )
    xla = None if outcome.rival is None else rate(XLA, outcome.rival)
    return Verdict(contenders[best][0], rated[best], xla, xla_wins, tuple(losers))
