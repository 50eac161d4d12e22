"""Prints the equations of one phase of a kernel.

    mul: f32[1024,256] = mul(x, broadcast)   -->   mul = x * scale  # aten.mul

The phase is the kernel's straight-line code, or the function under `pl.when` that follows the last
accumulation. Values are found by (space, variable); operands are loaded where they are first used.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
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
from tpu_inductor.regions.factors import Access, Factor, Factoring
from tpu_inductor.schedule.operands import stored_axes
from tpu_inductor.schedule.types import Axis, Form, Operand, Role, Space, TileSchedule

CHUNK_AT = "start"
"""The variable that holds where the chunk begins in its block."""


@dataclass(slots=True)
class Body:
    """The lines of one phase. `refs` names the reference of every operand, `pids` grid indices."""

    schedule: TileSchedule
    names: LocalNames
    refs: dict[Operand, str]
    pids: dict[str, str]
    lines: list[str] = field(default_factory=list[str])
    values: dict[tuple[Space, Var], Held] = field(default_factory=dict[tuple[Space, Var], Held])
    loaded: dict[Operand, Held] = field(default_factory=dict[Operand, Held])

    def run(self, members: Iterable[int], space: Space) -> None:
        """Prints the equations `members`, in order."""
        for index in members:
            eqn = self.schedule.eqns[index]
            if (space, eqn.outputs[0]) not in self.values:
                self.values[space, eqn.out] = self._equation(index, eqn, space)

    def operand(self, index: int, slot: int, space: Space) -> Held:
        """Operand `slot` of equation `index`, loaded if it comes from outside."""
        value = self.schedule.eqns[index].inputs[slot]
        if isinstance(value, Lit):
            return Held(literal(value), frozenset(), value)
        held = self.values.get((space, value))
        return self._load(Access(index, slot), space) if held is None else held

    # -- one equation ---------------------------------------------------------
    def _equation(self, index: int, eqn: Eqn, space: Space) -> Held:
        kind = PRIMS[eqn.prim].kind
        if kind is Kind.VIEW:
            return self.operand(index, 0, space)
        if eqn.prim == "full":
            lit = Lit(cast(A.Full, eqn.attrs).value, eqn.out.type.dtype)
            return Held(literal(lit), frozenset(), lit)
        if eqn.prim == "iota":
            return self._iota(eqn, space)
        if kind is Kind.REDUCE:
            return self._reduce(index, eqn, space)
        return self._pointwise(index, eqn, space)

    def _pointwise(self, index: int, eqn: Eqn, space: Space) -> Held:
        held = [self.operand(index, slot, space) for slot in range(len(eqn.inputs))]
        axes = frozenset[str]().union(*(h.axes for h in held))
        held = [self._mask(h, v, axes, space) for h, v in zip(held, eqn.inputs, strict=True)]
        inputs = tuple(h.lit or v for h, v in zip(held, eqn.inputs, strict=True))
        return self.define(eqn, pointwise_text(eqn, inputs, [h.text for h in held]), axes)

    def _mask(self, held: Held, value: Value, axes: frozenset[str], space: Space) -> Held:
        """A mask at full extent: Mosaic repeats integers along an axis, but not single bits."""
        if value.type.dtype is not DType.BOOL or held.lit is not None or held.axes == axes:
            return held
        wide = Held(f"{held.text}.astype(jnp.int32)", held.axes)
        missing = [a for a in self.seen_axes(space) if a.name in axes]
        name = self.names.unique(f"{held.text}_mask")
        self.lines.append(f"{name} = {self.spread(wide, missing, space).text} != 0")
        return Held(name, axes)

    def _iota(self, eqn: Eqn, space: Space) -> Held:
        dim = cast(A.Iota, eqn.attrs).dim
        along = self._axes_of(factoring_of(self.schedule).values[eqn.out][dim], eqn)
        text = self._place_text(along, space)
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

    def _place_text(self, along: Iterable[Axis], space: Space) -> str:
        """The position of each element along a dimension that is the product of these axes."""
        text = ""
        for axis in along:
            index = self.index_text(axis, space)
            text = f"({text}) * {axis.size} + {index}" if text else index
        return text or "jnp.int32(0)"

    def index_text(self, axis: Axis, space: Space) -> str:
        """The position of each element along `axis`: an array of extent 1 along the others."""
        parts: list[str] = []
        seen = self.seen_axes(space)
        if not axis.is_squeezed:
            shape, dim = self._shape({axis.name}, space), seen.index(axis)
            parts.append(f"lax.broadcasted_iota(jnp.int32, {shape}, {dim})")
        if axis.name in self.pids:
            pid = self.pids[axis.name]
            parts.append(pid if axis.tile == 1 else f"{pid} * {axis.tile}")
        if axis.chunk:
            parts.append(CHUNK_AT)
        return " + ".join(parts)

    def _reduce(self, index: int, eqn: Eqn, space: Space) -> Held:
        axes = tuple(a for a in self.seen_axes(space) if a.is_reduced)
        operand = self.spread(self.operand(index, 0, space), axes, space)
        if eqn.prim in ARG_REDUCE:
            text = self._arg_reduction(index, eqn, operand, space)
        else:
            text = self.partial_reduction(eqn, operand, axes, space)
        if eqn.out.type.dtype is DType.BOOL:
            text = f"{text} != 0"
        return self.define(eqn, text, operand.axes - {a.name for a in axes})

    def partial_reduction(
        self, eqn: Eqn, operand: Held, axes: tuple[Axis, ...], space: Space
    ) -> str:
        """The reduction of this block, without what lies beyond the end of an axis."""
        seen = self.seen_axes(space)
        dims = tuple(i for i, a in enumerate(seen) if a in axes)
        dtype = eqn.inputs[0].type.dtype
        text = self.masked(operand.text, axes, identity_text(eqn.prim, dtype), space)
        return block_reduction(eqn.prim, dtype, text, dims)

    def _arg_reduction(self, index: int, eqn: Eqn, operand: Held, space: Space) -> str:
        """The first place of a NaN, else of the extreme value, by two reductions."""
        function = {"argmax": "jnp.max", "argmin": "jnp.min"}[eqn.prim]
        dim = cast(A.Axis, eqn.attrs).dim
        along = self._axes_of(
            factoring_of(self.schedule).of(self.schedule.eqns, index, 0)[dim], eqn
        )
        if not along:
            return f"jnp.zeros_like({operand.text}, jnp.int32)"
        x, dims = operand.text, tuple(i for i, a in enumerate(self.seen_axes(space)) if a in along)
        best = f"{function}({x}, axis={dims}, keepdims=True)"
        found = f"({x} == {best}) | ({x} != {x})"
        size = eqn.inputs[0].type.dims[dim]
        place = f"jnp.where({found}, {self._place_text(along, space)}, {size})"
        return f"jnp.min({place}, axis={dims}, keepdims=True)"

    # -- helpers ----------------------------------------------------------------
    def masked(self, text: str, axes: Iterable[Axis], fill: str, space: Space) -> str:
        """`text` with `fill` beyond the end of every axis whose last block is partial."""
        for axis in axes:
            if axis.has_tail and axis.role is Role.ARBITRARY:
                text = f"jnp.where({self.index_text(axis, space)} < {axis.size}, {text}, {fill})"
        return text

    def spread(self, held: Held, axes: Iterable[Axis], space: Space) -> Held:
        """`held` as an array that has full extent along `axes`."""
        wanted = held.axes | {a.name for a in axes}
        if wanted == held.axes and held.lit is None:
            return held
        shape = self._shape(wanted, space)
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

    def seen_axes(self, space: Space) -> tuple[Axis, ...]:
        """The dimensions of arrays of `space` in the body, in order."""
        if space is Space.MAIN:
            has_dot = any(a.name == "k" and a.factors for a in self.schedule.axes)
            axes = [a for a in self.schedule.axes if not (has_dot and a.name == "k")]
        else:
            operand = next(o for o in self.schedule.inputs if o.space is space)
            axes = [self.schedule.axis(p.axis) for p in operand.places]
        return tuple(a for a in axes if not a.is_squeezed)

    def _shape(self, present: Collection[str], space: Space) -> tuple[int, ...]:
        """The shape of an array of `space` that has extent along the axes `present` alone."""
        return tuple(a.extent if a.name in present else 1 for a in self.seen_axes(space))

    def ref_text(self, operand: Operand, ref: str) -> str:
        """The part of a block that the body works on at once."""
        if operand.form is Form.WHOLE_VECTOR:
            axis = self.schedule.axis(operand.places[-1].axis)
            start = f"pl.multiple_of({self.pids[axis.name]} * {axis.tile}, {axis.tile})"
            return f"{ref}[pl.ds({start}, {axis.tile})]"
        axes = [self.schedule.axis(p.axis) for p in operand.places]
        present = [(a, p.is_present) for a, p in zip(axes, operand.places, strict=True)]
        parts = [
            f"pl.ds({CHUNK_AT}, {a.chunk})" if a.chunk and here else ":"
            for a, here in present
            if not a.is_squeezed
        ]
        return f"{ref}[{', '.join(parts)}]" if set(parts) != {":"} else f"{ref}[...]"

    def _load(self, access: Access, space: Space) -> Held:
        operand = next(o for o in self.schedule.inputs if o.space is space and access in o.accesses)
        if operand not in self.loaded:
            name = self.names.fresh(operand.var)
            present = frozenset(p.axis for p in operand.places if p.is_present)
            text = self.ref_text(operand, self.refs[operand])
            if operand.form.is_vector:
                text = f"{text}.reshape({self._shape(present, space)})"
            if operand.var.type.dtype is DType.BOOL:
                text = f"{text}.astype(jnp.int32) != 0"
            self.lines.append(f"{name} = {text}")
            self.loaded[operand] = Held(name, present)
        return self.loaded[operand]


def factors_of(schedule: TileSchedule, var: Var) -> frozenset[Factor]:
    """The factors along which a value of the region varies."""
    return frozenset(f for dim in factoring_of(schedule).values[var] for f in dim)


def factoring_of(schedule: TileSchedule) -> Factoring:
    """The factors of the region that `schedule` is of."""
    assert schedule.region.factoring is not None
    return schedule.region.factoring
