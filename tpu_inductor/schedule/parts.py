"""A loop over columns in parts: what a mask hides is left out, what it leaves whole has no mask.

columns   | hidden | masked | whole | masked | hidden |
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.bound import (
    Bound,
    Span,
    Strides,
    axes_of,
    chunks_of,
    counted_from,
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


def split_columns(
    visible: Visible, columns: Axis, axes: Sequence[Axis], turns: int
) -> tuple[Part, ...]:
    """The loops over the chunks of `columns`, in order: of whole ones `turns` together, of the rest
    half as many, and so on.
    """

    def chunks(bound: Bound, up: bool) -> Bound:
        bound = bound if columns.is_whole else counted_from(bound, columns.name)
        return chunks_of(bound, columns.extent, columns.turns, up=up)

    lo, hi = chunks(visible.some.lo, False), chunks(visible.some.hi, True)
    first = extreme("min", chunks(visible.all.lo, True), hi)
    last = extreme("max", chunks(visible.all.hi, False), first)
    whole = _by_strides(first, last, turns, visible.taken, axes)
    return (*_by_strides(lo, first, 1, {}, axes), *whole, *_by_strides(last, hi, 1, {}, axes))


def _by_strides(
    start: Bound, end: Bound, turns: int, shown: Mapping[int, int], axes: Sequence[Axis]
) -> Iterator[Part]:
    while not _is_empty(start, end) and turns:
        stop = Strides(start, end, turns) if turns > 1 else end
        yield Part(Span(start, end, _mean(start, stop, axes)), turns, shown)
        start, turns = stop, turns // 2


def _is_empty(start: Bound, end: Bound) -> bool:
    first, last = number_of(start), number_of(end)
    return start == end or (first is not None and last is not None and first >= last)


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
