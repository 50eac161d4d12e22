"""Prints the equations of one phase of a kernel.

    mul: f32[1024,256] = mul(x, broadcast)   -->   mul = x * scale  # aten.mul

A phase is straight-line code: the kernel's own, that of a loop over chunks, or the function under
`pl.when` that follows the last block of a fold. Values are found by (order of axes, variable).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from tpu_inductor.codegen.expr_literal import dtype_text, literal
from tpu_inductor.codegen.held import Held, LocalNames
from tpu_inductor.codegen.pointwise_text import pointwise_text
from tpu_inductor.codegen.reduction_text import block_reduction, identity_text
from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import ARG_REDUCE, PRIMS, Kind
from tpu_inductor.graph.types import DType
from tpu_inductor.regions.factors import Access, Factor
from tpu_inductor.schedule.arrays import Axis, Form, Operand, Order, Pattern
from tpu_inductor.schedule.bound import Bound
from tpu_inductor.schedule.nest import Compute
from tpu_inductor.schedule.placing import stored_axes
from tpu_inductor.schedule.storage import stored_dtype
from tpu_inductor.schedule.types import TileSchedule


@dataclass(slots=True)
class Body:
    """The lines of one phase. `refs` names the reference of every operand, `pids` grid indices.

    `starts` says where in its block the chunk begins, for the axes whose loops are around, `bounds`
    names the bounds of loops that have been printed.
    """

    schedule: TileSchedule
    names: LocalNames
    refs: dict[Operand, str]
    pids: dict[str, str]
    starts: dict[str, str] = field(default_factory=dict[str, str])
    bounds: dict[Bound, str] = field(default_factory=dict[Bound, str])
    lines: list[str] = field(default_factory=list[str])
    values: dict[tuple[Pattern, Var], Held] = field(default_factory=dict[tuple[Pattern, Var], Held])
    loaded: dict[tuple[Pattern, Access], Held] = field(
        default_factory=dict[tuple[Pattern, Access], Held]
    )

    def inner(self, starts: Mapping[str, str]) -> "Body":
        """A phase inside this one at these chunks, which sees its values."""
        return replace(
            self,
            starts={**self.starts, **starts},
            lines=[],
            bounds=dict(self.bounds),
            values=dict(self.values),
            loaded=dict(self.loaded),
        )

    def after(self) -> "Body":
        """A phase of its own."""
        return Body(self.schedule, self.names, self.refs, self.pids, self.starts)

    def compute(self, node: Compute) -> None:
        """Prints one equation."""
        eqn = self.schedule.eqns[node.eqn]
        self.hold(eqn.out, node.order, self._equation(node, eqn))

    def hold(self, var: Var, order: Order, held: Held) -> None:
        """Remembers a value."""
        self.values[self.schedule.pattern(var, order), var] = held

    def held(self, var: Var, order: Order) -> Held | None:
        """A value, if it has been computed so that it lies like this."""
        return self.values.get((self.schedule.pattern(var, order), var))

    def read(self, node: Compute, slot: int) -> Held:
        """Operand `slot` of an equation."""
        value, order = self.schedule.eqns[node.eqn].inputs[slot], node.reads[slot]
        if isinstance(value, Lit):
            return Held(literal(value), frozenset(), value)
        held = self.held(value, order)
        if held is not None:
            return held
        access = Access(node.eqn, slot)
        return self.loaded[self.schedule.access_pattern(access, order), access]

    def load(self, operand: Operand) -> None:
        """Prints the reading of the part of an operand that the body works on at once."""
        name = self.names.fresh(operand.var)
        present = frozenset(operand.present)
        text = self._ref_text(operand)
        if operand.form.is_vector:
            text = f"{text}.reshape({self._shape(present, operand.order)})"
        if operand.var.type.dtype is DType.BOOL:
            text = f"{text}.astype(jnp.int32) != 0"
        self.lines.append(f"{name} = {text}")
        for access in operand.accesses:
            pattern = self.schedule.access_pattern(access, operand.order)
            self.loaded[pattern, access] = Held(name, present)

    def store(self, operand: Operand) -> None:
        """Prints the writing of a result, at its full extent."""
        schedule = self.schedule
        held = self.held(operand.var, operand.order)
        assert held is not None
        axes = [schedule.axis(name) for name in operand.present]
        full = self.spread(
            self.narrowed(held), [a for a in axes if not a.is_squeezed], operand.order
        )
        text = full.text
        if operand.var.type.dtype is DType.BOOL:
            # Converted without the select, a mask becomes one of bytes, which v4 cannot compare.
            text = f"jnp.where({text}, 1, 0).astype({dtype_text(stored_dtype(operand.var.type))})"
        if operand.form.is_vector:
            text = f"{text}.reshape({schedule.block(operand)[0]})"
        self.lines.append(f"{self._ref_text(operand)} = {text}")

    # -- one equation ---------------------------------------------------------
    def _equation(self, node: Compute, eqn: Eqn) -> Held:
        kind = PRIMS[eqn.prim].kind
        if node.taken is not None:
            return self.read(node, node.taken)
        if kind is Kind.VIEW:
            return self.read(node, 0)
        if eqn.prim == "full":
            lit = Lit(cast(A.Full, eqn.attrs).value, eqn.out.type.dtype)
            return Held(literal(lit), frozenset(), lit)
        if eqn.prim == "iota":
            return self._iota(eqn, node.order)
        if kind is Kind.REDUCE:
            return self._reduce(node, eqn)
        return self._pointwise(node, eqn)

    def _pointwise(self, node: Compute, eqn: Eqn) -> Held:
        held = [self.read(node, slot) for slot in range(len(eqn.inputs))]
        axes = frozenset[str]().union(*(h.axes for h in held))
        lanes = max(h.lanes for h in held)
        if lanes:
            minor = self.seen_axes(node.order)[-1]
            lanes = 0 if minor.name in axes else lanes
            held = [h if lanes else self._widened(h, minor) for h in held]
        held = [self._mask(h, v, axes, node.order) for h, v in zip(held, eqn.inputs, strict=True)]
        inputs = tuple(h.lit or v for h, v in zip(held, eqn.inputs, strict=True))
        text = pointwise_text(eqn, inputs, [h.text for h in held])
        return replace(self.define(eqn, text, axes), lanes=lanes)

    def _widened(self, held: Held, minor: Axis) -> Held:
        """A value with copies in its lanes at the extent of `minor`, where that moves nothing."""
        if not held.lanes:
            return held
        if minor.extent % held.lanes:
            return self.narrowed(held)
        repeats = minor.extent // held.lanes
        text = held.text if repeats == 1 else f"jnp.tile({held.text}, (1, {repeats}))"
        return Held(text, held.axes)

    def narrowed(self, held: Held) -> Held:
        """The first lane of a value with copies in all."""
        return Held(f"{held.text}[..., :1]", held.axes) if held.lanes else held

    def _mask(self, held: Held, value: Value, axes: frozenset[str], order: Order) -> Held:
        """A mask at full extent: Mosaic repeats integers along an axis, but not single bits."""
        if value.type.dtype is not DType.BOOL or held.lit is not None or held.axes == axes:
            return held
        wide = Held(f"{held.text}.astype(jnp.int32)", held.axes)
        missing = [a for a in self.seen_axes(order) if a.name in axes]
        name = self.names.unique(f"{held.text}_mask")
        self.lines.append(f"{name} = {self.spread(wide, missing, order).text} != 0")
        return Held(name, axes)

    def _iota(self, eqn: Eqn, order: Order) -> Held:
        dim = cast(A.Iota, eqn.attrs).dim
        along = self._axes_of(self.schedule.factoring.values[eqn.out][dim], eqn)
        text = self._place_text(along, order)
        dtype = eqn.out.type.dtype
        if dtype is not DType.I32:
            text = f"({text}).astype({dtype_text(dtype)})"
        return self.define(eqn, text, frozenset(a.name for a in along))

    def _axes_of(self, dim: Sequence[Factor], eqn: Eqn) -> list[Axis]:
        """The axes of one dimension, the major one first."""
        along = stored_axes(dim, self.schedule.axes)
        if along is None:
            raise InvalidIR(f"the axes of {eqn} interleave with those of the kernel")
        return along

    def _place_text(self, along: Iterable[Axis], order: Order) -> str:
        """The position of each element along a dimension that is the product of these axes."""
        text = ""
        for axis in along:
            index = self.index_text(axis, order)
            text = f"({text}) * {axis.size} + {index}" if text else index
        return text or "jnp.int32(0)"

    def index_text(self, axis: Axis, order: Order) -> str:
        """The position of each element along `axis`: an array of extent 1 along the others."""
        parts: list[str] = []
        seen = self.seen_axes(order)
        if not axis.is_squeezed:
            shape, dim = self._shape({axis.name}, order), seen.index(axis)
            parts.append(f"lax.broadcasted_iota(jnp.int32, {shape}, {dim})")
        if axis.name in self.pids:
            pid = self.pids[axis.name]
            parts.append(pid if axis.tile == 1 else f"{pid} * {axis.tile}")
        if axis.name in self.starts:
            parts.append(self.starts[axis.name])
        return " + ".join(parts)

    def _reduce(self, node: Compute, eqn: Eqn) -> Held:
        axes = tuple(a for a in self.seen_axes(node.reads[0]) if a.is_reduced)
        operand = self.spread(self.read(node, 0), axes, node.reads[0])
        if node.lanes:
            return self._lane_sums(node, eqn, operand)
        if eqn.prim in ARG_REDUCE:
            text = self._arg_reduction(node, eqn, operand)
        else:
            text = self.partial_reduction(node, eqn, operand)
        if eqn.out.type.dtype is DType.BOOL:
            text = f"{text} != 0"
        return self.define(eqn, text, operand.axes - {a.name for a in axes})

    def partial_reduction(self, node: Compute, eqn: Eqn, operand: Held) -> str:
        """The reduction of this block, without what lies beyond the end of an axis."""
        order = node.reads[0]
        dims = tuple(i for i, a in enumerate(self.seen_axes(order)) if a.is_reduced)
        dtype = eqn.inputs[0].type.dtype
        text = self.masked(operand.text, node.tails, identity_text(eqn.prim, dtype), order)
        return block_reduction(eqn.prim, dtype, text, dims)

    def _lane_sums(self, node: Compute, eqn: Eqn, operand: Held) -> Held:
        """In every lane the sum of one element in so many, which adds whole registers."""
        *_, minor = self.seen_axes(node.reads[0])
        text = self.masked(operand.text, node.tails, "0", node.reads[0])
        if text != operand.text:
            name = self.names.fresh(eqn.out)
            self.lines.append(f"{name} = {text}")
            text = name
        starts = range(0, minor.extent, node.lanes)
        parts = [f"{text}[:, {at}:{at + node.lanes}]" for at in starts]
        held = self.define(eqn, " + ".join(parts), operand.axes - {minor.name})
        return replace(held, lanes=node.lanes)

    def _arg_reduction(self, node: Compute, eqn: Eqn, operand: Held) -> str:
        """The first place of a NaN, else of the extreme value, by two reductions."""
        function = {"argmax": "jnp.max", "argmin": "jnp.min"}[eqn.prim]
        dim = cast(A.Axis, eqn.attrs).dim
        factors = self.schedule.factoring.of(self.schedule.eqns, node.eqn, 0)[dim]
        along = self._axes_of(factors, eqn)
        if not along:
            return f"jnp.zeros_like({operand.text}, jnp.int32)"
        seen = self.seen_axes(node.order)
        x, dims = operand.text, tuple(i for i, a in enumerate(seen) if a in along)
        best = f"{function}({x}, axis={dims}, keepdims=True)"
        found = f"({x} == {best}) | ({x} != {x})"
        size = eqn.inputs[0].type.dims[dim]
        place = f"jnp.where({found}, {self._place_text(along, node.order)}, {size})"
        return f"jnp.min({place}, axis={dims}, keepdims=True)"

    # -- helpers ----------------------------------------------------------------
    def masked(self, text: str, tails: Iterable[str], fill: str, order: Order) -> str:
        """`text` with `fill` beyond the end of these axes."""
        for axis in map(self.schedule.axis, tails):
            text = f"jnp.where({self.index_text(axis, order)} < {axis.size}, {text}, {fill})"
        return text

    def spread(self, held: Held, axes: Iterable[Axis], order: Order) -> Held:
        """`held` as an array that has full extent along `axes`."""
        wanted = held.axes | {a.name for a in axes}
        if wanted == held.axes and held.lit is None:
            return held
        shape = self._shape(wanted, order)
        if held.lit is not None:
            text = f"jnp.full({shape}, {held.text}, {dtype_text(held.lit.dtype)})"
            return Held(text, wanted)
        return Held(f"jnp.broadcast_to({held.text}, {shape})", wanted)

    def define(self, eqn: Eqn, text: str, axes: frozenset[str]) -> Held:
        """Prints `name = text` and returns the name."""
        name = self.names.fresh(eqn.out)
        origin = f"  # {eqn.origin.op}" if eqn.origin.node else ""
        self.lines.append(f"{name} = {text}{origin}")
        return Held(name, axes)

    def seen_axes(self, order: Order) -> tuple[Axis, ...]:
        """The dimensions of arrays in `order`: its axes that the body sees."""
        axes = map(self.schedule.axis, order)
        return tuple(a for a in axes if not a.is_squeezed)

    def _shape(self, present: Collection[str], order: Order) -> tuple[int, ...]:
        """The shape of an array in `order` that has extent along the axes `present` alone."""
        return tuple(a.extent if a.name in present else 1 for a in self.seen_axes(order))

    def _ref_text(self, operand: Operand) -> str:
        """The part of a block that the body works on at once."""
        ref = self.refs[operand]
        if operand.form is Form.WHOLE_VECTOR:
            axis = self.schedule.axis(operand.places[-1].axis)
            start = f"pl.multiple_of({self.pids[axis.name]} * {axis.tile}, {axis.tile})"
            return f"{ref}[pl.ds({start}, {axis.tile})]"
        axes = [self.schedule.axis(p.axis) for p in operand.places]
        present = [(a, p.is_present) for a, p in zip(axes, operand.places, strict=True)]
        parts = [
            f"pl.ds({self.starts[a.name]}, {a.chunk})" if a.name in self.starts and here else ":"
            for a, here in present
            if not a.is_squeezed
        ]
        return f"{ref}[{', '.join(parts)}]" if set(parts) != {":"} else f"{ref}[...]"
