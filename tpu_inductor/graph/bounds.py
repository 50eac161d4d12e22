"""What the int64 values of a graph can be: bounds that follow from how they are made.

iota of 8 --> [0, 7];  iota of 8 times 3 --> [0, 21];  convert of int8 --> [-128, 127]
"""

from dataclasses import dataclass

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
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

    def combine(self, prim: str, other: "Interval") -> "Interval":
        """The bounds of `prim` of two values."""
        if prim == "add":
            return Interval(self.lo + other.lo, self.hi + other.hi)
        if prim == "sub":
            return Interval(self.lo - other.hi, self.hi - other.lo)
        corners = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(corners), max(corners))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of those variables that have any within 32 bits."""

    known: dict[Var, Interval]

    @staticmethod
    def of(graph: Graph) -> "Bounds":
        bounds = Bounds({})
        for eqn in graph.eqns:
            found = bounds._result(eqn)
            # Beyond 32 bits nothing can be narrowed, and int64 itself may wrap.
            if found is not None and found.within(I32_MIN, I32_MAX):
                bounds.known[eqn.out] = found
        return bounds

    def __getitem__(self, value: Value) -> Interval | None:
        if isinstance(value, Lit):
            return Interval(int(value.value), int(value.value))
        return self.known.get(value)

    def _result(self, eqn: Eqn) -> Interval | None:
        """The bounds of what `eqn` makes, if it is int64 and they are known."""
        if len(eqn.outputs) != 1 or eqn.out.type.dtype is not DType.I64:
            return None
        if isinstance(eqn.attrs, A.Iota):
            return Interval(0, max(int(eqn.attrs.shape[eqn.attrs.dim]) - 1, 0))
        if isinstance(eqn.attrs, A.Full):
            return Interval(int(eqn.attrs.value), int(eqn.attrs.value))
        if eqn.prim in VIEWS:
            return self[eqn.inputs[0]]
        if eqn.prim == "convert":
            return _bounds_of_type(eqn.inputs[0].type.dtype)
        if eqn.prim in ("add", "sub", "mul"):
            left, right = (self[v] for v in eqn.inputs)
            return left.combine(eqn.prim, right) if left and right else None
        return None


def _bounds_of_type(dtype: DType) -> Interval | None:
    if dtype is DType.BOOL:
        return Interval(0, 1)
    if not dtype.is_int or dtype in (DType.I64, DType.U64, DType.U32):
        return None
    bits = 8 * dtype.itemsize
    if dtype.is_signed_int:
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Interval(0, (1 << bits) - 1)
