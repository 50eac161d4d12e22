"""Which of several contenders is fastest, by measurements that may be noisy.

A first round times the most promising contenders once. The best of them and the seeds meet again in
a final of several rounds, and the medians of the final decide: neither a lucky first time wins, nor
does an unlucky one throw out what the cost model would have chosen. Only time on the device counts.

All races share each round, so that whoever measures has as much work at once as there is.
"""

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")

TOP = 8
"""Contenders in the first round, by order; seeds come on top."""

FINALISTS = 3
"""The best of the first round, which are measured again."""

REPEATS = 5
"""Rounds of the final. An odd number, so that the median is one of them."""

TIE = 0.02
"""Noisy times this near to each other are equal."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One timing. `device_us` is None where there is no time: `refused` or `doubt` say why.

    `refused` is the compiler's error, and final; `doubt` says why a time is not to be trusted.
    `wall_us` is what the host saw, launch and all, and never decides.
    """

    device_us: float | None = None
    wall_us: float | None = None
    refused: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Race(Generic[T]):
    """Contenders, most promising first, and a rival that is measured with them but never chosen.

    `seeds` are indices of contenders that are always in the final, and win ties, the first first.
    """

    contenders: tuple[T, ...]
    seeds: tuple[int, ...] = ()
    rival: T | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """`winner` is an index, or None where nothing could be timed.

    `results` has the median of every finalist and the first time of the other contenders that were
    measured, by index. `tie` is the relative difference that means nothing.
    """

    winner: int | None
    results: dict[int, Measurement]
    rival: Measurement | None
    tie: float

    @property
    def rival_wins(self) -> bool:
        """Whether the rival is faster than the winner by more than a tie. It has to have a time."""
        if self.winner is None or self.rival is None or not _has_time(self.rival):
            return False
        return _us(self.rival) * (1 + self.tie) < _us(self.results[self.winner])


Measure: TypeAlias = Callable[[Sequence[T]], Sequence[Measurement]]
"""Times programs, each on its own: one measurement for each, in order."""

_Entry: TypeAlias = tuple[int, int | None]
"""Who runs: the index of a race, and that of its contender, or None for its rival."""


def select(
    races: Sequence[Race[T]],
    measure: Measure[T],
    *,
    is_deterministic: bool,
    top: int = TOP,
    finalists: int = FINALISTS,
    repeats: int = REPEATS,
) -> list[Outcome]:
    """The outcome of every race. What is deterministic is measured once, and has no ties."""
    entries: list[_Entry] = []
    for r, race in enumerate(races):
        chosen = dict.fromkeys((*range(min(top, len(race.contenders))), *race.seeds))
        entries += [(r, i) for i in chosen]
        entries += [(r, None)] if race.rival is not None else []
    times = _run(races, entries, measure)
    final, tie = entries, 0.0
    if not is_deterministic:
        tie = TIE
        final = [e for r, race in enumerate(races) for e in _finalists(r, race, times, finalists)]
        rounds = [_run(races, final, measure) for _ in range(repeats)]
        times |= {entry: _median([each[entry] for each in rounds]) for entry in final}
    return [_decide(r, race, times, final, tie) for r, race in enumerate(races)]


def _run(
    races: Sequence[Race[T]], entries: Sequence[_Entry], measure: Measure[T]
) -> dict[_Entry, Measurement]:
    if not entries:
        return {}
    return dict(zip(entries, measure([_program(races, e) for e in entries]), strict=True))


def _program(races: Sequence[Race[T]], entry: _Entry) -> T:
    r, index = entry
    program = races[r].rival if index is None else races[r].contenders[index]
    assert program is not None
    return program


def _finalists(
    r: int, race: Race[T], times: dict[_Entry, Measurement], finalists: int
) -> list[_Entry]:
    """The best of the first round, the seeds and the rival, but not what does not compile."""
    mine = [entry for entry in times if entry[0] == r and entry[1] is not None]
    ranked = sorted((e for e in mine if _has_time(times[e])), key=lambda e: _us(times[e]))
    always: list[_Entry] = [(r, seed) for seed in race.seeds]
    always += [(r, None)] if race.rival is not None else []
    chosen = dict.fromkeys((*ranked[:finalists], *always))
    return [entry for entry in chosen if not times[entry].refused]


def _median(results: Sequence[Measurement]) -> Measurement:
    """The measurement in the middle; one refusal counts for all."""
    refusals = [m for m in results if m.refused]
    timed = sorted((m for m in results if _has_time(m)), key=_us)
    if refusals or not timed:
        return refusals[0] if refusals else results[0]
    middle = statistics.median_low([_us(m) for m in timed])
    return next(m for m in timed if _us(m) == middle)


def _decide(
    r: int, race: Race[T], times: dict[_Entry, Measurement], final: Iterable[_Entry], tie: float
) -> Outcome:
    results = {i: m for (owner, i), m in times.items() if owner == r and i is not None}
    candidates = {
        i: _us(times[r, i])
        for owner, i in final
        if owner == r and i is not None and _has_time(times[r, i])
    }
    winner = min(candidates, key=lambda i: (candidates[i], i), default=None)
    if winner is not None:
        limit = candidates[winner] * (1 + tie)
        tied = (seed for seed in race.seeds if candidates.get(seed, limit * 2) <= limit)
        winner = next(itertools.chain(tied, (winner,)))
    return Outcome(winner, results, times.get((r, None)), tie)


def _has_time(measurement: Measurement) -> bool:
    return measurement.device_us is not None and not measurement.refused


def _us(measurement: Measurement) -> float:
    assert measurement.device_us is not None
    return measurement.device_us
