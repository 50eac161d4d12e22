"""Replaces 64-bit integers by 32-bit ones where the results are provably the same.

Kernels compute in 32 bits, so a mask made from `arange` would else be written to memory by XLA:

    iota:i64[n] == broadcast(target:i64)   -->   iota:i32[n] == broadcast(i32(clamp(target)))

A comparison with values that lie in [lo, hi] needs no more of the other side than whether it is
below lo, above hi, or which value between; so the other side is clamped to [lo - 1, hi + 1].
"""

from dataclasses import dataclass, field, replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import COMPARE
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.types import DType

I32_MIN, I32_MAX = -(1 << 31), (1 << 31) - 1

EXACT_IN_F32 = 1 << 24
"""Integers up to here are converted without rounding, whatever the type they come from."""

VIEWS = frozenset(["broadcast", "reshape", "transpose", "slice", "rev"])


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of every element of a value, both included."""

    lo: int
    hi: int

    def within(self, lo: int, hi: int) -> bool:
        return lo <= self.lo and self.hi <= hi

    def combine(self, prim: str, other: "Interval") -> "Interval":
        """The bounds of `prim` of two values."""
        if prim == "add":
            return Interval(self.lo + other.lo, self.hi + other.hi)
        if prim == "sub":
            return Interval(self.lo - other.hi, self.hi - other.lo)
        corners = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(corners), max(corners))


def narrow_integers(graph: Graph) -> Graph:
    """The same function, with comparisons and conversions of bounded int64 values in int32."""
    narrower = _Narrower(Builder.after(graph))
    for eqn in graph.eqns:
        narrower.add(eqn)
    return simplify(replace(graph, eqns=tuple(narrower.builder.sink.eqns)))


@dataclass(slots=True)
class _Narrower:
    """The growing graph, with what is known of its int64 values."""

    builder: Builder
    makers: dict[Var, Eqn] = field(default_factory=dict[Var, Eqn])
    bounds: dict[Var, Interval] = field(default_factory=dict[Var, Interval])
    narrowed: dict[Var, Var] = field(default_factory=dict[Var, Var])

    def add(self, eqn: Eqn) -> None:
        """Appends `eqn`, on narrow operands where it may have them."""
        eqn = replace(eqn, inputs=self._narrow_inputs(eqn) or eqn.inputs)
        self.builder.sink.eqns.append(eqn)
        self.makers.update(dict.fromkeys(eqn.outputs, eqn))
        found = self._bounds_of(eqn)
        # Beyond 32 bits nothing can be narrowed, and int64 itself may wrap.
        if found is not None and found.within(I32_MIN, I32_MAX):
            self.bounds[eqn.out] = found

    # -- what is known ------------------------------------------------------------
    def _bounds_of(self, eqn: Eqn) -> Interval | None:
        if len(eqn.outputs) != 1 or eqn.out.type.dtype is not DType.I64:
            return None
        if isinstance(eqn.attrs, A.Iota):
            return Interval(0, max(int(eqn.attrs.shape[eqn.attrs.dim]) - 1, 0))
        if isinstance(eqn.attrs, A.Full):
            return Interval(int(eqn.attrs.value), int(eqn.attrs.value))
        if eqn.prim in VIEWS:
            return self._bounds(eqn.inputs[0])
        if eqn.prim == "convert":
            return _bounds_of_type(eqn.inputs[0].type.dtype)
        if eqn.prim in ("add", "sub", "mul"):
            left, right = map(self._bounds, eqn.inputs)
            return left.combine(eqn.prim, right) if left and right else None
        return None

    def _bounds(self, value: Value) -> Interval | None:
        if isinstance(value, Lit):
            return Interval(int(value.value), int(value.value))
        return self.bounds.get(value)

    # -- what may be narrow -------------------------------------------------------
    def _narrow_inputs(self, eqn: Eqn) -> tuple[Value, ...] | None:
        if not any(v.type.dtype is DType.I64 for v in eqn.operands):
            return None
        if eqn.prim in COMPARE:
            return self._compared(eqn)
        found = self._bounds(eqn.inputs[0]) if eqn.prim == "convert" else None
        if found is None:
            return None
        dtype = eqn.out.type.dtype
        exact = dtype.is_float and found.within(-EXACT_IN_F32, EXACT_IN_F32)
        return (self._narrow(eqn.inputs[0], eqn),) if exact or dtype is DType.I32 else None

    def _compared(self, eqn: Eqn) -> tuple[Value, ...] | None:
        """The two sides in 32 bits, if one is bounded and the comparison repeats the other."""
        known = [(self._bounds(v), v) for v in eqn.inputs]
        bounded = [b for b, v in known if b and isinstance(v, Var)]
        if not bounded:
            return None
        if all(b and b.within(I32_MIN, I32_MAX) for b, _ in known):
            return tuple(self._narrow(v, eqn) for _, v in known)
        (found,) = bounded
        (other,) = [v for b, v in known if b is None]
        base = self._behind_views(other)
        if not found.within(I32_MIN + 1, I32_MAX - 1) or base.type.size >= eqn.out.type.size:
            return None
        self._clamp(base, found, eqn)
        return tuple(self._narrow(v, eqn) for _, v in known)

    def _behind_views(self, value: Value) -> Var:
        assert isinstance(value, Var)
        maker = self.makers.get(value)
        while maker is not None and maker.prim in VIEWS:
            value = maker.operands[0]
            maker = self.makers.get(value)
        return value

    # -- narrow copies ------------------------------------------------------------
    def _clamp(self, base: Var, bounds: Interval, reader: Eqn) -> None:
        """Makes the narrow copy of an unbounded value, as far as a comparison tells it apart."""
        b = self.builder.at(reader.origin, base.name, ())
        low = b.op("max", base, Lit(bounds.lo - 1, DType.I64))
        clamped = b.op("min", low, Lit(bounds.hi + 1, DType.I64))
        narrow = b.convert(clamped, DType.I32)
        assert isinstance(narrow, Var)
        self.narrowed = {v: n for v, n in self.narrowed.items() if v in self.bounds}
        self.narrowed[base] = narrow

    def _narrow(self, value: Value, reader: Eqn) -> Value:
        """`value` in 32 bits: bounded, or made of views of something clamped."""
        if isinstance(value, Lit):
            return Lit(value.value, DType.I32)
        if value not in self.narrowed:
            self.narrowed[value] = self._copy(value, reader)
        return self.narrowed[value]

    def _copy(self, value: Var, reader: Eqn) -> Var:
        maker = self.makers.get(value)
        b = self.builder.at(reader.origin, value.name, ())
        if maker is None or maker.prim == "convert":
            source = maker.inputs[0] if maker else value
            narrow = b.convert(source, DType.I32)
            return narrow if isinstance(narrow, Var) else b.tensor(narrow)
        attrs = maker.attrs
        if isinstance(attrs, A.Iota | A.Full):
            attrs = replace(attrs, dtype=DType.I32)
        return b.one(maker.prim, *(self._narrow(v, reader) for v in maker.inputs), attrs=attrs)


def _bounds_of_type(dtype: DType) -> Interval | None:
    if dtype is DType.BOOL:
        return Interval(0, 1)
    if not dtype.is_int or dtype in (DType.I64, DType.U64, DType.U32):
        return None
    bits = 8 * dtype.itemsize
    if dtype.is_signed_int:
        return Interval(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Interval(0, (1 << bits) - 1)
