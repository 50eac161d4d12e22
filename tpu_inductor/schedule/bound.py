"""Bounds of loops that depend on where a block lies in the grid: whole chunks of affine lines.

causal, 512 rows a block, chunks of 1024 columns
-->   Chunks(Line((m, 1), 512), 1024, up): all chunks up to (m * 512 + 512 + 1023) // 1024
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

FAR = 1 << 40
"""Beyond any position."""


@dataclass(frozen=True, slots=True)
class Line:
    """A sum of positions, each times a whole number, and an offset.

    A position is where the block begins along an axis.
    """

    terms: tuple[tuple[str, int], ...]
    offset: int

    def at(self, places: Mapping[str, int]) -> int:
        return self.offset + sum(places[axis] * factor for axis, factor in self.terms)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest ("max") or the least ("min") of some bounds."""

    prim: str
    args: tuple["Bound", ...]

    def at(self, places: Mapping[str, int]) -> int:
        every = [arg.at(places) for arg in self.args]
        return max(every) if self.prim == "max" else min(every)


@dataclass(frozen=True, slots=True)
class Chunks:
    """How many whole chunks of `size` a bound takes, or with `up` begins: from 0 to `most`.

    The bound is in elements.
    """

    bound: "Bound"
    size: int
    up: bool
    most: int

    def at(self, places: Mapping[str, int]) -> int:
        return min(max(self.bound.at(places) + self.rounding, 0) // self.size, self.most)

    @property
    def rounding(self) -> int:
        return self.size - 1 if self.up else 0


@dataclass(frozen=True, slots=True)
class Strides:
    """Where as many whole strides end as fit from `lo` up to `hi`."""

    lo: "Bound"
    hi: "Bound"
    stride: int

    def at(self, places: Mapping[str, int]) -> int:
        lo = self.lo.at(places)
        return lo + max(self.hi.at(places) - lo, 0) // self.stride * self.stride


Bound: TypeAlias = Line | Extreme | Chunks | Strides


@dataclass(frozen=True, slots=True)
class Span:
    """Chunks from `lo` in whole strides up to `hi`; `mean` is how many, over all blocks."""

    lo: Bound
    hi: Bound
    mean: float


def extreme(prim: str, *bounds: Bound) -> Bound:
    """The extreme of bounds, of which constants are taken together."""
    flat: dict[Bound, None] = {}
    for b in bounds:
        flat.update(dict.fromkeys(b.args if isinstance(b, Extreme) and b.prim == prim else (b,)))
    numbers = [n for b in flat if (n := number_of(b)) is not None]
    rest = [b for b in flat if number_of(b) is None]
    if numbers:
        least = max(numbers) if prim == "max" else min(numbers)
        if least <= 0 and rest and all(isinstance(b, Chunks) for b in rest):
            # Numbers of chunks are not negative.
            least = least if prim == "min" else -FAR
            rest = [] if prim == "min" else rest
        is_idle = least <= -FAR if prim == "max" else least >= FAR
        rest += [] if rest and is_idle else [Line((), least)]
    return rest[0] if len(rest) == 1 else Extreme(prim, tuple(rest))


def chunks_of(bound: Bound, size: int, most: int, *, up: bool) -> Bound:
    """`Chunks`, as a number where it is one."""
    found = Chunks(bound, size, up, most)
    return found if number_of(bound) is None else Line((), found.at({}))


def counted_from(bound: Bound, axis: str) -> Bound:
    """A bound in elements, counted from where the block begins along `axis`."""
    if isinstance(bound, Extreme):
        return extreme(bound.prim, *(counted_from(arg, axis) for arg in bound.args))
    assert isinstance(bound, Line)
    if not bound.terms and abs(bound.offset) >= FAR:
        return bound
    return Line((*bound.terms, (axis, -1)), bound.offset)


def number_of(bound: Bound) -> int | None:
    """The value of a bound that depends on nothing."""
    return bound.offset if isinstance(bound, Line) and not bound.terms else None


def axes_of(bound: Bound) -> frozenset[str]:
    """The axes on whose position a bound depends."""
    if isinstance(bound, Line):
        return frozenset(axis for axis, _ in bound.terms)
    if isinstance(bound, Chunks):
        return axes_of(bound.bound)
    args = (bound.lo, bound.hi) if isinstance(bound, Strides) else bound.args
    return frozenset[str]().union(*map(axes_of, args))
