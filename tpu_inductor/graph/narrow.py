"""Replaces 64-bit integers by 32-bit ones where the results are provably the same.

Kernels compute in 32 bits, so a mask made from `arange` would else be written to memory by XLA:

    iota:i64[n] == broadcast(target:i64)   -->   iota:i32[n] == broadcast(i32(clamp(target)))

A comparison with values that lie in [lo, hi] needs no more of the other side than whether it is
below lo, above hi, or which value between; so the other side is clamped to [lo - 1, hi + 1]. One
clamp serves all comparisons of a value, those with constants included.
"""

from dataclasses import dataclass, field, replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.bounds import I32_MAX, I32_MIN, VIEWS, Bounds, Interval
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.prims import COMPARE
from tpu_inductor.graph.simplify import simplify
from tpu_inductor.graph.types import DType

EXACT_IN_F32 = 1 << 24
"""Integers up to here are converted without rounding, whatever the type they come from."""

REBUILT = VIEWS | {"iota", "full", "convert", "add", "sub", "mul", "neg", "abs", "min", "max"}
"""What makes narrow values of narrow ones; of any other value the result is converted."""

FITS_I32 = (DType.BOOL, DType.I32, DType.I16, DType.I8, DType.U16, DType.U8)


def narrow_integers(graph: Graph) -> Graph:
    """The same function, with comparisons and conversions of bounded int64 values in int32."""
    if all(v.type.dtype is not DType.I64 for eqn in graph.eqns for v in eqn.inputs):
        return graph
    makers = {v: eqn for eqn in graph.eqns for v in eqn.outputs}
    bounds = Bounds.of(graph)
    narrower = _Narrower(Builder.after(graph), makers, bounds, _spans(graph, makers, bounds))
    for eqn in graph.eqns:
        narrower.add(eqn)
    return simplify(replace(graph, eqns=tuple(narrower.builder.sink.eqns)))


def _spans(graph: Graph, makers: dict[Var, Eqn], bounds: Bounds) -> dict[Var, Interval]:
    """The unbounded values to clamp, with what they are compared with.

    Clamping has to be less work than a comparison: some comparison must repeat the value.
    """
    spans: dict[Var, Interval] = {}
    repeated: set[Var] = set()
    for eqn in graph.eqns:
        found = _one_bounded(eqn, bounds)
        if found is None:
            continue
        base = _behind_views(found[1], makers)
        spans[base] = spans.get(base, found[0]) | found[0]
        if base.type.size < eqn.out.type.size:
            repeated.add(base)
    return {base: span for base, span in spans.items() if base in repeated}


def _one_bounded(eqn: Eqn, bounds: Bounds) -> tuple[Interval, Var] | None:
    """The bounds of one side of a comparison in int64, and the other side, which has none."""
    if eqn.prim not in COMPARE or eqn.inputs[0].type.dtype is not DType.I64:
        return None
    free = [v for v in eqn.inputs if bounds.narrow(v) is None]
    known = [b for b in map(bounds.narrow, eqn.inputs) if b is not None]
    if len(known) != 1 or not known[0].within(I32_MIN + 1, I32_MAX - 1):
        return None
    assert isinstance(free[0], Var)
    return known[0], free[0]


def _behind_views(value: Var, makers: dict[Var, Eqn]) -> Var:
    maker = makers.get(value)
    while maker is not None and maker.prim in VIEWS:
        value = maker.operands[0]
        maker = makers.get(value)
    return value


@dataclass(slots=True)
class _Narrower:
    """The growing graph, with the narrow copies of its int64 values."""

    builder: Builder
    makers: dict[Var, Eqn]
    bounds: Bounds
    spans: dict[Var, Interval]
    narrowed: dict[Var, Var] = field(default_factory=dict[Var, Var])

    def add(self, eqn: Eqn) -> None:
        """Appends `eqn`, on narrow operands where it may have them."""
        inputs = eqn.inputs
        if self._may_narrow(eqn):
            inputs = tuple(self._narrow(v, eqn) for v in eqn.inputs)
        self.builder.sink.eqns.append(replace(eqn, inputs=inputs))

    def _may_narrow(self, eqn: Eqn) -> bool:
        """Whether the result is the same on the narrow copies of its int64 operands."""
        if not any(v.type.dtype is DType.I64 for v in eqn.operands):
            return False
        if eqn.prim in COMPARE:
            one = _one_bounded(eqn, self.bounds)
            if one is not None:
                return _behind_views(one[1], self.makers) in self.spans
            return all(self.bounds.narrow(v) is not None for v in eqn.inputs)
        found = self.bounds.narrow(eqn.inputs[0]) if eqn.prim == "convert" else None
        if found is None:
            return False
        dtype = eqn.out.type.dtype
        exact = dtype.is_float and found.within(-EXACT_IN_F32, EXACT_IN_F32)
        return exact or dtype is DType.I32

    def _narrow(self, value: Value, reader: Eqn) -> Value:
        """`value` in 32 bits: bounded, clamped, or made of views of something clamped."""
        if isinstance(value, Lit):
            return Lit(value.value, DType.I32)
        if value not in self.narrowed:
            self.narrowed[value] = self._copy(value, reader)
        return self.narrowed[value]

    def _copy(self, value: Var, reader: Eqn) -> Var:
        b = self.builder.at(reader.origin, value.name, ())
        maker = self.makers.get(value)
        if value in self.spans:
            return self._clamp(b, value)
        if maker is None or not self._is_rebuilt(maker):
            return b.tensor(b.convert(value, DType.I32))
        if maker.prim == "convert":
            return b.tensor(b.convert(maker.inputs[0], DType.I32))
        attrs = maker.attrs
        if isinstance(attrs, A.Iota | A.Full):
            attrs = replace(attrs, dtype=DType.I32)
        return b.one(maker.prim, *(self._narrow(v, reader) for v in maker.inputs), attrs=attrs)

    def _is_rebuilt(self, maker: Eqn) -> bool:
        """Whether the equation, on narrow copies of its operands, gives the narrow result."""
        if maker.prim not in REBUILT:
            return False
        if maker.prim == "convert":
            return maker.inputs[0].type.dtype in FITS_I32
        return all(self._has_copy(v) for v in maker.inputs)

    def _has_copy(self, value: Value) -> bool:
        return self.bounds.narrow(value) is not None or (
            isinstance(value, Var) and _behind_views(value, self.makers) in self.spans
        )

    def _clamp(self, b: Builder, value: Var) -> Var:
        """The narrow copy of an unbounded value, as far as its comparisons tell it apart."""
        span = self.spans[value]
        low = b.op("max", value, Lit(span.lo - 1, DType.I64))
        return b.tensor(b.convert(b.op("min", low, Lit(span.hi + 1, DType.I64)), DType.I32))
