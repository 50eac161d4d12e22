"""How the values of a region depend on the axis that is streamed.

A value *varies* if it changes along the axis: one that only repeats along it (the broadcast of a
row statistic) has the axis's extent and does not vary. A value is *late* if it depends on what
closes the axis, so that it changes from block to block; one that does not vary is a *tag*.
"""

import math
from dataclasses import dataclass

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.prims import ENDING, PRIMS
from tpu_inductor.graph.types import Shape
from tpu_inductor.regions.factors import Dims, Factor, Factoring, flat


class NotStreamable(Exception):
    """Why a region does not stream along an axis. Does not leave this package."""


@dataclass(frozen=True, slots=True)
class AxisUse:
    """The equations of a region, and what each has to do with `axis`.

    `closings` are the indices of the reductions and contractions over the axis.
    """

    eqns: tuple[Eqn, ...]
    factoring: Factoring
    axis: frozenset[Factor]
    producer: dict[Var, int]
    varying: frozenset[Var]
    late: frozenset[Var]
    closings: frozenset[int]

    @property
    def extent(self) -> int:
        """Elements along the axis."""
        return math.prod(f.size for f in self.axis)

    def dims(self, index: int, slot: int) -> Dims:
        return self.factoring.of(self.eqns, index, slot)

    def has_axis(self, index: int, slot: int) -> bool:
        """Whether the operand has the axis's extent, varying or not."""
        return not self.axis.isdisjoint(flat(self.dims(index, slot)))

    def varies(self, index: int, slot: int) -> bool:
        """Whether the operand changes along the axis."""
        value = self.eqns[index].inputs[slot]
        inside = value in self.factoring.values
        return value in self.varying if inside else self.has_axis(index, slot)

    def is_late(self, value: Value) -> bool:
        return value in self.late

    def along(self, dims: Dims) -> tuple[int, ...]:
        """Which dimensions lie along the axis."""
        return tuple(d for d, dim in enumerate(dims) if not self.axis.isdisjoint(dim))

    def small_shape(self, var: Var) -> Shape:
        """The shape of a value inside with extent 1 along the axis."""
        along = self.along(self.factoring.values[var])
        return tuple(1 if d in along else n for d, n in enumerate(var.type.dims))


def trace_axis(eqns: tuple[Eqn, ...], factoring: Factoring, axis: frozenset[Factor]) -> AxisUse:
    """Raises NotStreamable where the axis has no blocks of its own."""
    _check_dims(eqns, factoring, axis)
    producer = {eqn.out: i for i, eqn in enumerate(eqns)}
    varying: set[Var] = set()
    late: set[Var] = set()
    closings: set[int] = set()
    for i, eqn in enumerate(eqns):
        if _closes(eqns, factoring, axis, i):
            closings.add(i)
            late.add(eqn.out)
            continue
        if not late.isdisjoint(eqn.operands):
            late.add(eqn.out)
        if _makes_positions(eqn, factoring, axis) or any(
            v in varying or (v not in producer and axis & flat(factoring.of(eqns, i, slot)))
            for slot, v in enumerate(eqn.inputs)
            if not isinstance(v, Lit)
        ):
            varying.add(eqn.out)
    if not closings:
        raise NotStreamable("nothing closes the axis")
    return AxisUse(
        eqns, factoring, axis, producer, frozenset(varying), frozenset(late), frozenset(closings)
    )


def _check_dims(eqns: tuple[Eqn, ...], factoring: Factoring, axis: frozenset[Factor]) -> None:
    every = (*factoring.values.values(), *factoring.accesses.values())
    for dim in (dim for dims in every for dim in dims):
        if axis.intersection(dim) and not axis.issuperset(dim):
            raise NotStreamable("the axis shares a dimension with another")
    values = [v for eqn in eqns for v in (*eqn.operands, *eqn.outputs)]
    if any(v.type.size == 0 for v in values):
        raise NotStreamable("there are no elements")


def _closes(
    eqns: tuple[Eqn, ...], factoring: Factoring, axis: frozenset[Factor], index: int
) -> bool:
    eqn = eqns[index]
    if PRIMS[eqn.prim].kind not in ENDING:
        return False
    dims = factoring.of(eqns, index, 0)
    if isinstance(eqn.attrs, A.Dot):
        ended = {f for d in eqn.attrs.lhs_contract for f in dims[d]} & axis
    else:
        ended = axis & flat(dims) - flat(factoring.values[eqn.out])
    if ended and ended != axis:
        raise NotStreamable(f"{eqn.prim} closes only a part of the axis - {eqn.origin.place}")
    return bool(ended)


def _makes_positions(eqn: Eqn, factoring: Factoring, axis: frozenset[Factor]) -> bool:
    attrs = eqn.attrs
    return isinstance(attrs, A.Iota) and not axis.isdisjoint(factoring.values[eqn.out][attrs.dim])
