"""Rewrites a region so that what does not vary along the axis has extent 1 there.

    broadcast(m: f32[8,1]; shape=(8,512)) read by sub   -->   the same, of the row value m
    log(broadcast(l; shape=(8,512)))                    -->   broadcast(log(l); shape=(8,512))

So row values are small whatever their spelling, and every value of the axis's extent either varies
or is known to repeat one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Eqn, Graph, Lit, Value, Var
from tpu_inductor.graph.types import DType, Shape
from tpu_inductor.streams.action import Actions
from tpu_inductor.streams.axis import AxisUse


@dataclass(slots=True)
class Rewriter:
    """The equations so far, and what is known of their values.

    `rows` has the small form of values that do not vary, `repeated` the row value behind one that
    repeats it, `small_attrs` what a view of a varying value is on extent 1. `closings` has the
    results that close the axis, and which dimensions of the first operand lie along it; `shown`
    where such a sum has any contributor, for those that are masked.
    """

    use: AxisUse
    builder: Builder
    makers: dict[Var, Eqn] = field(default_factory=dict[Var, Eqn])
    late: set[Var] = field(default_factory=set[Var])
    varying: set[Var] = field(default_factory=set[Var])
    closings: dict[Var, tuple[int, ...]] = field(default_factory=dict[Var, tuple[int, ...]])
    rows: dict[Var, Value] = field(default_factory=dict[Var, Value])
    repeated: dict[Var, Var] = field(default_factory=dict[Var, Var])
    small_attrs: dict[Var, A.Attrs] = field(default_factory=dict[Var, A.Attrs])
    shown: dict[Var, Var] = field(default_factory=dict[Var, Var])
    seen: dict[Hashable, Value] = field(default_factory=dict[Hashable, Value])

    @staticmethod
    def of(use: AxisUse, inputs: tuple[Var, ...]) -> "Rewriter":
        return Rewriter(use, Builder.after(Graph("", inputs, use.eqns, ())))

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        return tuple(self.builder.sink.eqns)

    @property
    def actions(self) -> Actions:
        return Actions(self.makers, self.late, self.repeated, self.small_attrs)

    # -- operands ---------------------------------------------------------------------
    def row(self, value: Value) -> Value:
        """The small form of a value that does not vary."""
        return self.rows.get(value, value) if isinstance(value, Var) else value

    def wide(self, index: int, slot: int) -> Value:
        """An operand as an equation along the axis reads it."""
        value = self.use.eqns[index].inputs[slot]
        if isinstance(value, Lit) or self.use.varies(index, slot):
            return value
        return self.repeat(value) if self.use.has_axis(index, slot) else self.row(value)

    def repeat(self, value: Var) -> Var:
        """A value that does not vary, with the extent of the axis."""
        if value in self.makers:
            return value
        eqn = self.use.eqns[self.use.producer[value]]
        if isinstance(eqn.attrs, A.Full):
            return self.keep(eqn)
        small = self.row(value)
        attrs = A.Broadcast(value.type.shape, tuple(range(value.type.rank)))
        assert isinstance(small, Var)
        self.repeated[value] = small
        return self.keep(Eqn("broadcast", (small,), (value,), attrs, eqn.origin))

    # -- equations --------------------------------------------------------------------
    def keep(self, eqn: Eqn) -> Var:
        """Appends an equation with the results that it names."""
        self.builder.sink.eqns.append(eqn)
        return self._note(eqn)

    def row_op(self, eqn: Eqn, prim: str, *inputs: Value, attrs: A.Attrs | None = None) -> Value:
        """A new equation among row values, for what `eqn` computes."""
        if _is_identity(prim, inputs, attrs):
            return inputs[0]
        key = (prim, tuple((v, str(v)) for v in inputs), attrs)
        if key not in self.seen:
            b = self.builder.at(eqn.origin, eqn.out.name, ())
            before = len(self.builder.sink.eqns)
            out = b.one(prim, *inputs, attrs=attrs) if attrs is not None else b.op(prim, *inputs)
            for made in self.builder.sink.eqns[before:]:
                self._note(made)
            self.seen[key] = out
        return self.seen[key]

    def wide_op(self, eqn: Eqn, prim: str, *inputs: Value, attrs: A.Attrs | None = None) -> Var:
        """A new equation along the axis, for what `eqn` computes."""
        out = self.row_op(eqn, prim, *inputs, attrs=attrs)
        assert isinstance(out, Var)
        self.varying.add(out)
        return out

    def close(
        self, eqn: Eqn, prim: str, *inputs: Value, attrs: A.Attrs, along: tuple[int, ...]
    ) -> Var:
        """A new equation that closes the axis, along these dimensions of its first operand."""
        out = self.row_op(eqn, prim, *inputs, attrs=attrs)
        assert isinstance(out, Var)
        return self._mark_closing(out, along)

    def keep_closing(self, eqn: Eqn, along: tuple[int, ...]) -> Var:
        return self._mark_closing(self.keep(eqn), along)

    def _mark_closing(self, out: Var, along: tuple[int, ...]) -> Var:
        self.closings[out] = along
        self.late.add(out)
        return out

    def convert(self, eqn: Eqn, value: Value, dtype: DType) -> Value:
        if value.type.dtype is dtype:
            return value
        if isinstance(value, Lit):
            return Lit(value.value, dtype)
        out = self.row_op(eqn, "convert", value, attrs=A.Convert(dtype))
        if value in self.varying and isinstance(out, Var):
            self.varying.add(out)
        return out

    def copy(self, index: int) -> None:
        """An equation that does not close the axis."""
        eqn, use = self.use.eqns[index], self.use
        if eqn.out in use.varying:
            inputs = tuple(self.wide(index, slot) for slot in range(len(eqn.inputs)))
            self.keep(replace(eqn, inputs=inputs))
            self.varying.add(eqn.out)
            self.small_attrs[eqn.out] = _with_shape(eqn.attrs, use.small_shape(eqn.out))
            return
        small = use.small_shape(eqn.out)
        inputs = tuple(map(self.row, eqn.inputs))
        if eqn.prim == "broadcast" and inputs[0].type.shape == small:
            self.rows[eqn.out] = inputs[0]
        elif small == eqn.out.type.shape:
            self.keep(replace(eqn, inputs=inputs))
        else:
            attrs = _with_shape(eqn.attrs, small)
            self.rows[eqn.out] = self.row_op(eqn, eqn.prim, *inputs, attrs=attrs)

    def view(self, index: int, value: Value) -> Value:
        """The view that an equation takes, of another varying value."""
        eqn = self.use.eqns[index]
        if isinstance(value, Lit):
            return value
        out = self.wide_op(eqn, eqn.prim, value, attrs=eqn.attrs)
        self.small_attrs[out] = self.small_attrs[eqn.out]
        return out

    def small_view(self, index: int, value: Value) -> Value:
        """The view that an equation takes, of a row value."""
        eqn = self.use.eqns[index]
        if isinstance(value, Lit):
            return value
        return self.row_op(eqn, eqn.prim, value, attrs=self.small_attrs[eqn.out])

    def ones(self, eqn: Eqn, shape: Shape, dtype: DType) -> Var:
        return self.wide_op(eqn, "full", attrs=A.Full(shape, dtype, 1.0))

    def _note(self, eqn: Eqn) -> Var:
        self.makers.update(dict.fromkeys(eqn.outputs, eqn))
        if not self.late.isdisjoint(eqn.operands):
            self.late.update(eqn.outputs)
        return eqn.out


def _is_identity(prim: str, inputs: tuple[Value, ...], attrs: A.Attrs | None) -> bool:
    """Whether a view or a reduction leaves its operand as it is."""
    if isinstance(attrs, A.Reshape | A.Broadcast):
        return prim in ("reshape", "broadcast") and attrs.shape == inputs[0].type.shape
    if isinstance(attrs, A.Transpose):
        return attrs.perm == tuple(range(len(attrs.perm)))
    return isinstance(attrs, A.Dims) and not attrs.dims


def _with_shape(attrs: A.Attrs, shape: Sequence[object]) -> A.Attrs:
    if isinstance(attrs, A.Broadcast | A.Reshape | A.Iota | A.Full):
        return replace(attrs, shape=tuple(shape))  # type: ignore[arg-type]
    return attrs
