"""A loop over columns in parts: what a mask hides is left out, what it leaves whole has no mask.

    columns   | hidden | masked | whole | masked | hidden |
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.bound import (
    Bound,
    Span,
    axes_of,
    chunks_of,
    extreme,
    number_of,
)
from tpu_inductor.schedule.visible import Visible

SAMPLES = 4096
"""Blocks of the grid of which the mean number of chunks is taken."""


@dataclass(frozen=True, slots=True)
class Part:
    """Chunks that are visited in one loop, `turns` of them together; all without a span.

    `shown` has the equations whose masks hide nothing, with the operand that they show.
    """

    span: Span | None
    turns: int
    shown: Mapping[int, int] = field(default_factory=dict[int, int])


def split_columns(visible: Visible, columns: Axis, axes: Sequence[Axis]) -> tuple[Part, ...]:
    """The loops over the chunks of `columns`, in order."""

    def chunks(bound: Bound, up: bool) -> Bound:
        return chunks_of(bound, columns.extent, columns.turns, up=up)

    lo, hi = chunks(visible.some.lo, False), chunks(visible.some.hi, True)
    first = extreme("min", chunks(visible.all.lo, True), hi)
    last = extreme("max", chunks(visible.all.hi, False), first)
    spans = ((lo, first, {}), (first, last, visible.taken), (last, hi, {}))
    return tuple(
        Part(Span(start, end, _mean(start, end, axes)), 1, shown)
        for start, end, shown in spans
        if not _is_empty(start, end)
    )


def _is_empty(start: Bound, end: Bound) -> bool:
    numbers = number_of(start), number_of(end)
    return start == end or (None not in numbers and numbers[0] >= numbers[1])


def _mean(start: Bound, end: Bound, axes: Sequence[Axis]) -> float:
    """How many chunks lie between two bounds, over the blocks of the grid."""
    moving = [a for a in axes if a.name in axes_of(start) | axes_of(end)]
    places = itertools.product(*(range(0, a.blocks * a.tile, a.tile) for a in moving))
    counts = [
        max(end.at(at) - start.at(at), 0)
        for place in itertools.islice(places, SAMPLES)
        for at in [dict(zip((a.name for a in moving), place, strict=True))]
    ]
    return sum(counts) / len(counts)
