"""Builds a graph equation by equation; each result type follows from its type rule."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.origin import COMPILER, Origin
from tpu_inductor.graph.prims import CHECK, EAGER, PRIMS, Kind
from tpu_inductor.graph.types import DType, Scalar, Shape, TensorType


@dataclass(slots=True)
class _Sink:
    """The growing graph that all views of one builder share."""

    eqns: list[Eqn] = field(default_factory=list[Eqn])
    inputs: list[Var] = field(default_factory=list[Var])
    names: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Builder:
    """Appends equations of one origin; `at` gives a view for another origin.

    `out` holds the types that torch gives the node being lowered: a lowering may rely on them.
    Without `has_checks`, `check` adds nothing.
    """

    sink: _Sink = field(default_factory=_Sink)
    origin: Origin = COMPILER
    hint: str = ""
    out: tuple[TensorType, ...] = ()
    has_checks: bool = False

    @staticmethod
    def after(graph: Graph) -> "Builder":
        """For new equations of `graph`: its names are taken."""
        made = [v for eqn in graph.eqns for v in eqn.outputs]
        return Builder(_Sink(names={v.name: 1 for v in (*graph.inputs, *made)}))

    def at(self, origin: Origin, hint: str, out: tuple[TensorType, ...]) -> "Builder":
        """The same graph, for equations that come from `origin` and are named after `hint`."""
        return replace(self, origin=origin, hint=hint, out=out)

    # -- leaves -------------------------------------------------------------
    def input(self, name: str, type: TensorType) -> Var:
        var = Var(self.fresh(name), type)
        self.sink.inputs.append(var)
        return var

    def lit(self, value: Scalar, dtype: DType) -> Lit:
        """A constant, wrapped to the range of `dtype`."""
        if dtype is DType.BOOL:
            return Lit(bool(value), dtype)
        if dtype.is_float:
            return Lit(float(value), dtype)
        bits = 8 * dtype.itemsize
        number = int(value) & ((1 << bits) - 1)
        if dtype.is_signed_int and number >> (bits - 1):
            number -= 1 << bits
        return Lit(number, dtype)

    # -- equations ----------------------------------------------------------
    def emit(self, prim: str, *inputs: Value, attrs: A.Attrs | None = None) -> tuple[Var, ...]:
        """Appends `prim(inputs; attrs)` and returns its results."""
        attrs = A.NoAttrs() if attrs is None else attrs
        types = PRIMS[prim].type_rule(attrs, *(v.type for v in inputs))
        name = self.hint or prim
        outputs = tuple(Var(self.fresh(name), t) for t in types)
        self.sink.eqns.append(Eqn(prim, inputs, outputs, attrs, self.origin))
        return outputs

    def one(self, prim: str, *inputs: Value, attrs: A.Attrs | None = None) -> Var:
        """`emit` for a primitive with one result."""
        (out,) = self.emit(prim, *inputs, attrs=attrs)
        return out

    def eager(
        self, call: A.EagerCall, operands: Sequence[Var], types: Sequence[TensorType]
    ) -> tuple[Var, ...]:
        """Appends an ATen call that runs in torch, with the result types that torch gives."""
        outputs = tuple(Var(self.fresh(self.hint), t) for t in types)
        self.sink.eqns.append(Eqn(EAGER, tuple(operands), outputs, call, self.origin))
        return outputs

    def check(self, x: Value, attrs: A.Check) -> None:
        """Has the program raise, as torch would, where `attrs` does not allow an element of `x`."""
        if self.has_checks and x.type.size:
            self.one(CHECK, self.tensor(x), attrs=attrs)

    def finish(self, name: str, outputs: Sequence[Value]) -> Graph:
        return Graph(name, tuple(self.sink.inputs), tuple(self.sink.eqns), tuple(outputs))

    # -- pointwise ----------------------------------------------------------
    def op(self, prim: str, *operands: Value) -> Var:
        """A pointwise primitive over operands that broadcast as in numpy. Types must agree."""
        if PRIMS[prim].kind is not Kind.POINTWISE:
            raise InvalidIR(f"{prim} is not pointwise")
        shape = broadcast_shapes(*(v.type.shape for v in operands))
        return self.one(prim, *(self._fit(v, shape) for v in operands))

    def convert(self, x: Value, dtype: DType) -> Value:
        """`x` as `dtype`, by value; floats to ints truncate, anything to bool is `x != 0`."""
        if x.type.dtype is dtype:
            return x
        if dtype is DType.BOOL:
            return self.op("ne", x, self.lit(0, x.type.dtype))
        return self.one("convert", x, attrs=A.Convert(dtype))

    # -- creation and views -------------------------------------------------
    def full(self, shape: Shape, dtype: DType, value: Scalar) -> Var:
        lit = self.lit(value, dtype)
        return self.one("full", attrs=A.Full(shape, dtype, lit.value))

    def iota(self, shape: Shape, dtype: DType, dim: int) -> Var:
        return self.one("iota", attrs=A.Iota(shape, dtype, dim))

    def broadcast_to(self, x: Value, shape: Shape) -> Var:
        """`x` with size-1 and leading dimensions stretched, as numpy broadcasts."""
        if isinstance(x, Lit):
            return self.full(shape, x.dtype, x.value)
        if x.type.shape == shape:
            return x
        dims = tuple(range(len(shape) - x.type.rank, len(shape)))
        return self.one("broadcast", x, attrs=A.Broadcast(shape, dims))

    def reshape(self, x: Value, shape: Shape) -> Var:
        x = self.tensor(x)
        return x if x.type.shape == shape else self.one("reshape", x, attrs=A.Reshape(shape))

    def transpose(self, x: Value, perm: Sequence[int]) -> Var:
        x, perm = self.tensor(x), tuple(perm)
        if perm == tuple(range(len(perm))):
            return x
        return self.one("transpose", x, attrs=A.Transpose(perm))

    def expand_dims(self, x: Value, dims: Sequence[int]) -> Var:
        """`x` with new dimensions of extent 1 at the positions `dims` of the result."""
        rest = iter(x.type.shape)
        rank = x.type.rank + len(dims)
        return self.reshape(x, tuple(1 if d in dims else next(rest) for d in range(rank)))

    def slice(self, x: Value, dim: int, start: int, limit: int, stride: int = 1) -> Var:
        """`x[..., start:limit:stride, ...]` along one dimension, within bounds."""
        x = self.tensor(x)
        n = x.type.rank
        starts, limits, strides = [0] * n, list(x.type.dims), [1] * n
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        if starts[dim] == 0 and limits[dim] == x.type.dims[dim] and stride == 1:
            return x
        attrs = A.Slice(tuple(starts), tuple(limits), tuple(strides))
        return self.one("slice", x, attrs=attrs)

    def concat(self, xs: Sequence[Value], dim: int) -> Var:
        tensors = [self.tensor(x) for x in xs]
        return tensors[0] if len(tensors) == 1 else self.one("concat", *tensors, attrs=A.Axis(dim))

    # -- reductions ---------------------------------------------------------
    def reduce(self, prim: str, x: Value, dims: Sequence[int], keepdims: bool = False) -> Var:
        """A reduction over `dims`, in the type of `x`."""
        x = self.tensor(x)
        dims = tuple(sorted(dims))
        out = self.one(prim, x, attrs=A.Dims(dims)) if dims else x
        return self.expand_dims(out, dims) if keepdims and dims else out

    # -- helpers ------------------------------------------------------------
    def maker(self, x: Value) -> Eqn | None:
        """The equation that made `x`, for a lowering that does better if it knows."""
        return next((eqn for eqn in reversed(self.sink.eqns) if x in eqn.outputs), None)

    def tensor(self, x: Value) -> Var:
        """`x`, or a 0-dimensional tensor that holds the literal."""
        return self.full((), x.dtype, x.value) if isinstance(x, Lit) else x

    def _fit(self, x: Value, shape: Shape) -> Value:
        return x if isinstance(x, Lit) else self.broadcast_to(x, shape)

    def fresh(self, hint: str) -> str:
        base = "".join(c if c.isalnum() else "_" for c in hint) or "v"
        base = base if not base[0].isdigit() else f"v{base}"
        name = base
        while name in self.sink.names:
            self.sink.names[base] += 1
            name = f"{base}_{self.sink.names[base]}"
        self.sink.names[name] = 1
        return name


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The numpy broadcast of `shapes`. Raises InvalidIR where they do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out: list[object] = []
    for extents in zip(*padded, strict=True):
        wide = dict.fromkeys(e for e in extents if e != 1)
        if len(wide) > 1:
            raise InvalidIR(f"shapes do not broadcast: {shapes}")
        out.append(next(iter(wide), 1))
    return tuple(out)  # type: ignore[return-value]
