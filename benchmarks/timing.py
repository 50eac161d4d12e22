"""Times functions in turn, A B C A B C, so that a busy machine troubles all of them alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Call: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds a call, one number for each round: on the clock, and of this process's work."""

    rounds: tuple[float, ...]
    worked: tuple[float, ...] = ()

    @property
    def cpu(self) -> "Times":
        """The seconds of work, which a busy machine moves less."""
        return Times(self.worked)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def least(self) -> float:
        return min(self.rounds)

    def over(self, other: "Times") -> float:
        """How many times longer than `other`: the median over rounds, each of which ran both."""
        return statistics.median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))


@dataclass(frozen=True, slots=True)
class First:
    """One call: seconds on the clock, and of work, which a busy machine moves less."""

    seconds: float
    cpu_seconds: float
    result: Any


def once(call: Call) -> First:
    start, cpu_start = time.perf_counter(), time.process_time()
    result = call()
    return First(time.perf_counter() - start, time.process_time() - cpu_start, result)


def in_turn(
    calls: Mapping[str, Call], rounds: int = 40, window: float = 1e-3, limit: float = 10.0
) -> dict[str, Times]:
    """Each call, repeated for about `window` seconds in every round, `limit` seconds in all."""
    repeats = {name: _repeats(call, window) for name, call in calls.items()}
    windows: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    end = time.perf_counter() + limit
    gc.collect()
    gc.disable()
    try:
        for n in range(rounds):
            if n >= 5 and time.perf_counter() > end:
                break
            for name, call in calls.items():
                windows[name].append(_window(call, repeats[name]))
    finally:
        gc.enable()
    return {name: Times(*zip(*rounds, strict=True)) for name, rounds in windows.items()}


def _repeats(call: Call, window: float) -> int:
    for _ in range(3):
        call()
    return max(1, int(window / once(call).seconds))


def _window(call: Call, repeats: int) -> tuple[float, float]:
    # The first call of a window finds the caches full of another function's data.
    call()
    start, cpu_start = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return seconds / repeats, cpu_seconds / repeats
