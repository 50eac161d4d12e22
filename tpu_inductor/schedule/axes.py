"""From a region's factors to kernel axes: their order, and which factors run as one axis.

    x: (b, t, d) + bias: (d)      --> axes rows = b t, cols = d
    mm: (b t, n) + r: (b, t, n)   --> axes m = b t, n = n, k = k

Neighbouring factors merge when no operand, result or value tells them apart. The minor axis is the
lane axis of the tiled memory layout, so merging into it would make XLA copy every operand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tpu_inductor.errors import Reject
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factors import Factor, Factoring
from tpu_inductor.regions.region import Region
from tpu_inductor.regions.rules import flat
from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.product_axes import find_product_axes
from tpu_inductor.schedule.sequences import (
    axis_of,
    has_neither_or_neighbours,
    indexed_dims,
    sequence,
    stored_sequences,
)
from tpu_inductor.target import TpuTarget


def find_axes(region: Region, target: TpuTarget) -> KernelAxes | Reject:
    """Orders and merges the factors of a pallas region."""
    factoring = region.factoring
    assert factoring is not None
    if any(PRIMS[e.prim].kind is Kind.DOT for e in region.eqns):
        return find_product_axes(region, factoring)
    order = _main_order(region, factoring, factoring.factors)
    if order is None:
        return Reject("no value spans every axis of the region")
    runs = _merge(order, _Tests(region, factoring, target))
    axes = _named(runs, factoring, region, target)
    return KernelAxes(axes, (tuple(a.name for a in axes),), {})


def _main_order(
    region: Region, factoring: Factoring, wanted: frozenset[Factor]
) -> tuple[Factor, ...] | None:
    """The order of factors in which most bytes of operands and results are stored."""
    stored = stored_sequences(region, factoring)
    orders = dict.fromkeys(
        sequence(dims)
        for dims in (*factoring.accesses.values(), *factoring.values.values())
        if flat(dims) == wanted
    )
    if not orders:
        return None

    def agreeing_bytes(order: tuple[Factor, ...]) -> int:
        return sum(nbytes for seq, nbytes in stored if _is_subsequence(seq, order))

    return max(reversed(list(orders)), key=agreeing_bytes)


@dataclass(frozen=True, slots=True)
class _Tests:
    """What decides whether two neighbouring factors may run as one axis."""

    region: Region
    factoring: Factoring
    target: TpuTarget

    def can_merge(self, left: Factor, right: Factor, is_minor: bool) -> bool:
        closed = self.factoring.reduced
        if (left in closed) != (right in closed):
            return False
        sequences = [seq for seq, _ in stored_sequences(self.region, self.factoring)]
        sequences += indexed_dims(self.region.eqns, self.factoring)
        if not all(has_neither_or_neighbours(seq, left, right) for seq in sequences):
            return False
        present = (flat(dims) for dims in self.factoring.values.values())
        if not all((left in p) == (right in p) for p in present):
            return False
        return not is_minor or self._is_always_one_dimension(left, right)

    def _is_always_one_dimension(self, left: Factor, right: Factor) -> bool:
        """Whether every operand and result stores the two as (part of) one dimension."""
        dims = list(self.factoring.accesses.values())
        dims += [self.factoring.values[v] for v in self.region.outputs]
        return all((left in dim) == (right in dim) for each in dims for dim in each)


def _merge(order: Sequence[Factor], tests: _Tests) -> list[tuple[Factor, ...]]:
    runs: list[tuple[Factor, ...]] = []
    for i, factor in enumerate(order):
        is_minor = i == len(order) - 1
        if runs and tests.can_merge(runs[-1][-1], factor, is_minor):
            runs[-1] = (*runs[-1], factor)
        else:
            runs.append((factor,))
    return runs


def _named(
    runs: list[tuple[Factor, ...]], factoring: Factoring, region: Region, target: TpuTarget
) -> tuple[Axis, ...]:
    """Axes for the runs: at least two, since vector registers are rows of lanes."""
    names = [*(f"b{i}" for i in range(len(runs) - 2)), "rows", "cols"][-max(len(runs), 2) :]
    if len(runs) > 1:
        return tuple(axis_of(n, run, factoring) for n, run in zip(names, runs, strict=True))
    (run,) = runs
    whole = axis_of("cols", run, factoring)
    if _can_split(region, factoring, whole, target):
        rows = Axis("rows", run, whole.size // target.lanes, whole.size // target.lanes)
        return rows, Axis("cols", (), target.lanes, target.lanes)
    return Axis("rows", (), 1, 1), whole


def _can_split(region: Region, factoring: Factoring, axis: Axis, target: TpuTarget) -> bool:
    """Whether a vector can be taken as rows of one register tile each, which moves no data."""
    every = [*factoring.values.values(), *factoring.accesses.values()]
    return (
        target.is_tpu
        and not axis.is_reduced
        and axis.size % target.lanes == 0
        and all(flat(dims) in (frozenset(), frozenset(axis.factors)) for dims in every)
        and not indexed_dims(region.eqns, factoring)
    )


def _is_subsequence(seq: Sequence[Factor], order: Sequence[Factor]) -> bool:
    rest = iter(order)
    return all(f in rest for f in seq)
