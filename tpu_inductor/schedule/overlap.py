"""The time of a pipelined kernel: copies run beside the points that compute.

    point i: start fetching block i+1 | wait for block i | compute | start writing | wait for the
             block written a point before

Copies share one channel in order and arrive a latency later. With one block in flight the channel
idles for that latency unless a point computes for longer, which is why small blocks are ruinous.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tpu_inductor.schedule.rates import DMA_LATENCY_US

WATCHED = 64
"""Points that are followed one by one; the rest go at the pace of the last of them."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One operand's blocks: the copy of one takes `copy_us`, and every `period` points one is due.

    `period` 0 is a block that is copied once.
    """

    copy_us: float
    period: int
    is_output: bool

    def is_due(self, point: int) -> bool:
        """Whether `point` has another block than the point before it."""
        return point == 0 or (self.period > 0 and point % self.period == 0)

    def copies(self, points: int) -> int:
        return -(-points // self.period) if self.period else 1


def pipelined_us(points: int, point_us: float, streams: Sequence[Stream]) -> float:
    """Microseconds of `points` grid points that compute for `point_us` each."""
    followed = min(points, WATCHED)
    clock = _Clock()
    ready = _fetch(clock, streams, 0)
    half = 0.0
    for point in range(followed):
        arriving = _fetch(clock, streams, point + 1) if point + 1 < points else 0.0
        clock.now = max(clock.now, ready) + point_us
        _write(clock, streams, point, points)
        ready = max(arriving, clock.now)
        if point == followed // 2 - 1:
            half = clock.now
    if points == followed:
        return max(clock.now, clock.written, clock.free)
    pace = (clock.now - half) / (followed - followed // 2)
    # What is fetched too rarely to be seen above still needs the channel.
    channel = sum(s.copy_us * s.copies(points) for s in streams)
    return max(clock.now + pace * (points - followed), channel) + DMA_LATENCY_US


@dataclass(slots=True)
class _Clock:
    """`free` is when the channel is, `written` when the last block written has arrived."""

    now: float = 0.0
    free: float = 0.0
    written: float = 0.0

    def copy(self, copy_us: float) -> float:
        """Queues a copy; returns when it has arrived."""
        self.free = max(self.free, self.now) + copy_us
        return self.free + DMA_LATENCY_US


def _fetch(clock: _Clock, streams: Sequence[Stream], point: int) -> float:
    due = [s for s in streams if not s.is_output and s.is_due(point)]
    return max((clock.copy(s.copy_us) for s in due), default=0.0)


def _write(clock: _Clock, streams: Sequence[Stream], point: int, points: int) -> None:
    due = [s for s in streams if s.is_output and (point + 1 == points or s.is_due(point + 1))]
    if due:
        before = clock.written
        clock.written = max(clock.copy(s.copy_us) for s in due)
        clock.now = max(clock.now, before)
