"""What the integers of a graph can be: bounds that follow from how they are made.

iota of 8 --> [0, 7];  iota of 8 times 3 --> [0, 21];  convert of int8 --> [-128, 127]
min(max(x, 0), 7) --> [0, 7];  argmax over 8 --> [0, 7];  cumsum of 8 bools --> [0, 8]
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import ARG_REDUCE
from tpu_inductor.graph.types import DType

I32_MIN, I32_MAX = -(1 << 31), (1 << 31) - 1

VIEWS = frozenset(["broadcast", "reshape", "transpose", "slice", "rev"])


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of every element of a value, both included."""

    lo: int
    hi: int

    def within(self, lo: int, hi: int) -> bool:
        return lo <= self.lo and self.hi <= hi

    def __or__(self, other: "Interval") -> "Interval":
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def corners(self, other: "Interval", fn: Callable[[int, int], int]) -> "Interval":
        """The bounds of `fn` of two values, where it is monotonous in each of them."""
        found = [fn(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(found), max(found))

    def summed(self, count: int) -> "Interval":
        """The bounds of a sum of up to `count` values."""
        return Interval(min(self.lo, self.lo * count), max(self.hi, self.hi * count))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of every integer variable; those of its type where no more is known."""

    known: dict[Var, Interval]

    @staticmethod
    def of(graph: Graph) -> "Bounds":
        bounds = Bounds({})
        for eqn in graph.eqns:
            for place, var in enumerate(eqn.outputs):
                whole = bounds_of_type(var.type.dtype)
                found = bounds._result(eqn, place) if whole is not None else None
                # What may leave its type wraps, and can then be anything.
                if whole is not None and found is not None and found.within(whole.lo, whole.hi):
                    bounds.known[var] = found
        return bounds

    def __getitem__(self, value: Value) -> Interval | None:
        """The bounds of `value`; None for a float."""
        if isinstance(value, Lit):
            is_whole = bounds_of_type(value.dtype) is not None
            return Interval(int(value.value), int(value.value)) if is_whole else None
        return self.known.get(value, bounds_of_type(value.type.dtype))

    def narrow(self, value: Value) -> Interval | None:
        """The bounds of `value` if they lie within 32 bits."""
        found = self[value]
        return found if found is not None and found.within(I32_MIN, I32_MAX) else None

    def _result(self, eqn: Eqn, place: int) -> Interval | None:
        """The bounds of what `eqn` makes, if they are tighter than those of its type."""
        attrs = eqn.attrs
        if isinstance(attrs, A.Iota):
            return Interval(0, max(int(attrs.shape[attrs.dim]) - 1, 0))
        if isinstance(attrs, A.Full):
            return Interval(int(attrs.value), int(attrs.value))
        if eqn.prim in ARG_REDUCE or (isinstance(attrs, A.Sort) and place == 1):
            return Interval(0, max(_extent(eqn) - 1, 0))
        given = [self[v] for v in eqn.inputs]
        operands = [g for g in given if g is not None]
        # Over nothing, extremes are what they start from.
        if len(operands) < len(given) or not all(v.type.size for v in eqn.inputs):
            return None
        return _combine(eqn, operands)


def _combine(eqn: Eqn, given: list[Interval]) -> Interval | None:
    """The bounds of a result from those of the operands."""
    attrs = eqn.attrs
    if eqn.prim in VIEWS or eqn.prim in ("convert", "sort", "reduce_max", "reduce_min"):
        return given[0]
    if eqn.prim == "neg":
        return Interval(-given[0].hi, -given[0].lo)
    if eqn.prim == "abs":
        ends = abs(given[0].lo), abs(given[0].hi)
        return Interval(0 if given[0].lo <= 0 <= given[0].hi else min(ends), max(ends))
    if eqn.prim in ("concat", "pad", "select"):
        chosen = given[1:] if eqn.prim == "select" else given
        return Interval(min(g.lo for g in chosen), max(g.hi for g in chosen))
    if eqn.prim in _MONOTONOUS:
        return given[0].corners(given[1], _MONOTONOUS[eqn.prim])
    if eqn.prim == "cumsum":
        return given[0].summed(_extent(eqn))
    if isinstance(attrs, A.Dims) and eqn.prim == "reduce_sum":
        count = prod(eqn.inputs[0].type.dims[d] for d in attrs.dims)
        return given[0].summed(count) | Interval(0, 0)
    return _remainder(*given) if eqn.prim == "rem" else None


def _remainder(x: Interval, y: Interval) -> Interval | None:
    """The remainder of a positive divisor, which has the sign of the dividend."""
    if y.lo <= 0:
        return None
    return Interval(max(x.lo, 1 - y.hi) if x.lo < 0 else 0, min(x.hi, y.hi - 1) if x.hi > 0 else 0)


def _extent(eqn: Eqn) -> int:
    assert isinstance(eqn.attrs, A.Axis | A.Sort)
    return eqn.inputs[0].type.dims[eqn.attrs.dim]


_MONOTONOUS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "max": max,
    "min": min,
}


def bounds_of_type(dtype: DType) -> Interval | None:
    """All values of an integer type or of bool; None for floats."""
    if dtype is DType.BOOL:
        return Interval(0, 1)
    if not dtype.is_int:
        return None
    bits = 8 * dtype.itemsize
    if dtype.is_signed_int:
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Interval(0, (1 << bits) - 1)
