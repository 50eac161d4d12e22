"""From a region's factors to kernel axes: their order, and which factors run as one axis.

    x: (b, t, d) + bias: (d)      --> axes rows = b t, cols = d
    mm: (b t, n) + r: (b, t, n)   --> axes m = b t, n = n, k = k

Neighbouring factors merge when no operand, result or value tells them apart. The minor axis is the
lane axis of the tiled memory layout, so merging into it would make XLA copy every operand.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.prims import ARG_REDUCE, PRIMS, Kind
from tpu_inductor.regions.factors import Dims, Factor, Factoring
from tpu_inductor.regions.region import Region
from tpu_inductor.regions.rules import flat
from tpu_inductor.schedule.arrays import Axis, Order
from tpu_inductor.schedule.nest import Product
from tpu_inductor.streams.scan import Kept
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class KernelAxes:
    """The axes of a kernel, outermost first, before tiles are chosen.

    `order` are those of its results. `products` has the axes of every contraction, by the index of
    its equation; axes that are in none of them are squeezed. `kept` is what a scan keeps from block
    to block of the axes that it reduces.
    """

    axes: tuple[Axis, ...]
    order: Order
    products: Mapping[int, Product]
    kept: tuple[Kept, ...] = ()

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)


def find_axes(region: Region, target: TpuTarget) -> KernelAxes | Reject:
    """Orders and merges the factors of a pallas region."""
    factoring = region.factoring
    assert factoring is not None
    dots = [i for i, e in enumerate(region.eqns) if PRIMS[e.prim].kind is Kind.DOT]
    if dots:
        return _matmul_axes(region, factoring, dots[0])
    order = _main_order(region, factoring, factoring.factors)
    if order is None:
        return Reject("no value spans every axis of the region")
    runs = _merge(order, _Tests(region, factoring, target))
    axes = _named(runs, factoring, region, target)
    return KernelAxes(axes, tuple(a.name for a in axes), {})


def _main_order(
    region: Region, factoring: Factoring, wanted: frozenset[Factor]
) -> tuple[Factor, ...] | None:
    """The order of factors in which most bytes of operands and results are stored."""
    stored = _stored(region, factoring)
    orders = dict.fromkeys(
        _sequence(dims)
        for dims in (*factoring.accesses.values(), *factoring.values.values())
        if flat(dims) == wanted
    )
    if not orders:
        return None

    def agreeing_bytes(order: tuple[Factor, ...]) -> int:
        return sum(nbytes for seq, nbytes in stored if _is_subsequence(seq, order))

    return max(reversed(list(orders)), key=agreeing_bytes)


def _stored(region: Region, factoring: Factoring) -> list[tuple[tuple[Factor, ...], int]]:
    """The factor sequence and the bytes of every operand and result."""
    reads = [
        (_sequence(dims), region.eqns[a.eqn].inputs[a.slot].type.nbytes)
        for a, dims in factoring.accesses.items()
    ]
    return reads + [(_sequence(factoring.values[v]), v.type.nbytes) for v in region.outputs]


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
        sequences = [seq for seq, _ in _stored(self.region, self.factoring)]
        sequences += _indexed_dims(self.region.eqns, self.factoring)
        if not all(_has_neither_or_neighbours(seq, left, right) for seq in sequences):
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
        return tuple(_axis(n, run, factoring) for n, run in zip(names, runs, strict=True))
    (run,) = runs
    whole = _axis("cols", run, factoring)
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
        and not _indexed_dims(region.eqns, factoring)
    )


def _axis(name: str, run: tuple[Factor, ...], factoring: Factoring) -> Axis:
    size = 1
    for factor in run:
        size *= factor.size
    is_reduced = run[0] in factoring.reduced or run[0] in factoring.contracted
    return Axis(name, run, size, size, is_reduced=is_reduced)


def _matmul_axes(region: Region, factoring: Factoring, dot: int) -> KernelAxes | Reject:
    eqn = region.eqns[dot]
    attrs = cast(A.Dot, eqn.attrs)
    lhs, rhs = factoring.of(region.eqns, dot, 0), factoring.of(region.eqns, dot, 1)
    tests = _MatmulTests(region, factoring)
    batch = _sequence(tuple(lhs[d] for d in attrs.lhs_batch))
    m = tests.merge(_sequence(tuple(lhs[d] for d in attrs.free("lhs", len(lhs)))))
    n = tests.merge(_sequence(tuple(rhs[d] for d in attrs.free("rhs", len(rhs)))))
    k = tests.merge(_sequence(tuple(lhs[d] for d in attrs.lhs_contract)))
    if len(n) != 1:
        return Reject("an operand of the epilogue has only part of the matmul's columns")
    if len(k) != 1:
        return Reject("the contracted dimensions do not lie together in both operands")
    squeezed = [*((f,) for f in batch), *m[:-1]]
    axes = [_axis(f"b{i}", run, factoring) for i, run in enumerate(squeezed)]
    axes += [
        _axis(name, run, factoring) for name, run in zip("mnk", (m[-1], n[0], k[0]), strict=True)
    ]
    order = tuple(a.name for a in axes[:-1])
    return KernelAxes(tuple(axes), order, {dot: Product(("m",), ("n",), ("k",))})


@dataclass(frozen=True, slots=True)
class _MatmulTests:
    region: Region
    factoring: Factoring

    def merge(self, order: Sequence[Factor]) -> list[tuple[Factor, ...]]:
        """Merges the factors of one side: both operands lie in memory as matrices anyway."""
        sequences = [seq for seq, _ in _stored(self.region, self.factoring)]
        sequences += _indexed_dims(self.region.eqns, self.factoring)
        present = [flat(dims) for dims in self.factoring.values.values()]
        runs: list[tuple[Factor, ...]] = []
        for factor in order:
            joins = runs and all(
                _has_neither_or_neighbours(seq, runs[-1][-1], factor) for seq in sequences
            )
            if joins and all((runs[-1][-1] in p) == (factor in p) for p in present):
                runs[-1] = (*runs[-1], factor)
            else:
                runs.append((factor,))
        return runs


def _indexed_dims(eqns: tuple[Eqn, ...], factoring: Factoring) -> list[tuple[Factor, ...]]:
    """The dimensions whose position is itself a value: those of iota, argmax and argmin."""
    found: list[tuple[Factor, ...]] = []
    for index, eqn in enumerate(eqns):
        if isinstance(eqn.attrs, A.Iota):
            found.append(factoring.values[eqn.out][eqn.attrs.dim])
        elif eqn.prim in ARG_REDUCE:
            found.append(factoring.of(eqns, index, 0)[cast(A.Axis, eqn.attrs).dim])
    return found


def _sequence(dims: Dims) -> tuple[Factor, ...]:
    return tuple(itertools.chain.from_iterable(dims))


def _is_subsequence(seq: Sequence[Factor], order: Sequence[Factor]) -> bool:
    rest = iter(order)
    return all(f in rest for f in seq)


def _has_neither_or_neighbours(seq: Sequence[Factor], left: Factor, right: Factor) -> bool:
    if (left in seq) != (right in seq):
        return False
    return left not in seq or seq.index(right) == seq.index(left) + 1
