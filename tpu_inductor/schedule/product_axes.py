"""The axes of kernels with matrix products: rows, columns, what is contracted; others are squeezed.

x (b, s, k) @ w (k, n)            --> axes m = b s, n = n, k = k
softmax(q k^T) v, heads b h       --> axes b0 = b, b1 = h, m = queries, n = keys, k, d
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factors import Factor, Factoring, flat
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Order
from tpu_inductor.schedule.kernel_axes import KernelAxes
from tpu_inductor.schedule.nest import Product
from tpu_inductor.schedule.sequences import (
    axis_of,
    has_neither_or_neighbours,
    indexed_dims,
    sequence,
    stored_sequences,
)
from tpu_inductor.streams.stream import streamed_factors

NAMES = "mnkdefgh"
"""Names of the axes of matrices, in the order in which the products of a region meet them."""

Run = tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class _Runs:
    """The factors of one product, those that run as one axis together."""

    batch: tuple[Run, ...]
    rows: tuple[Run, ...]
    columns: tuple[Run, ...]
    contracted: tuple[Run, ...]


def find_product_axes(region: Region, factoring: Factoring) -> KernelAxes | Reject:
    """The axes of a region with matrix products: at most one run of columns and one contracted a
    product."""
    dots = [i for i, e in enumerate(region.eqns) if PRIMS[e.prim].kind is Kind.DOT]
    runs = {dot: _runs_of(region, factoring, dot) for dot in dots}
    for each in runs.values():
        if len(each.columns) != 1:
            return Reject("an operand of the epilogue has only part of the matmul's columns")
        if len(each.contracted) != 1:
            return Reject("the contracted dimensions do not lie together in both operands")
    names: dict[Run, str] = {}
    for each in runs.values():
        for run in (each.rows[-1], *each.columns, *each.contracted):
            names.setdefault(run, NAMES[len(names)])
    outer = dict.fromkeys(run for each in runs.values() for run in (*each.batch, *each.rows[:-1]))
    if not _are_apart([*names, *outer]):
        return Reject("the matrix products cut their axes differently")
    squeezed = [axis_of(f"b{i}", run, factoring) for i, run in enumerate(outer)]
    matrix = [axis_of(name, run, factoring) for run, name in names.items()]
    products = {
        dot: Product((names[r.rows[-1]],), (names[r.columns[0]],), (names[r.contracted[0]],))
        for dot, r in runs.items()
    }
    leading = tuple(a.name for a in squeezed)
    ended = streamed_factors(region.eqns, factoring) & factoring.contracted
    streamed = next((a.name for a in matrix if ended.issuperset(a.factors) and ended), "")
    orders = dict.fromkeys((*leading, *_minor_last(p, streamed)) for p in products.values())
    return KernelAxes((*squeezed, *matrix), tuple(orders), products, streamed=streamed)


def _minor_last(product: Product, streamed: str) -> Order:
    """The order of a product: what another ends lies along the lanes."""
    free = (*product.rows, *product.columns)
    return (*free[1:], free[0]) if free[0] == streamed else free


def _are_apart(runs: Sequence[Run]) -> bool:
    """Whether no factor is in two runs."""
    factors = [f for run in runs for f in run]
    return len(factors) == len(set(factors))


def _runs_of(region: Region, factoring: Factoring, dot: int) -> _Runs:
    attrs = cast(A.Dot, region.eqns[dot].attrs)
    lhs, rhs = factoring.of(region.eqns, dot, 0), factoring.of(region.eqns, dot, 1)
    merge = _Merging(region, factoring).merge
    return _Runs(
        tuple((f,) for f in sequence(tuple(lhs[d] for d in attrs.lhs_batch))),
        merge(sequence(tuple(lhs[d] for d in attrs.free("lhs", len(lhs))))),
        merge(sequence(tuple(rhs[d] for d in attrs.free("rhs", len(rhs))))),
        merge(sequence(tuple(lhs[d] for d in attrs.lhs_contract))),
    )


@dataclass(frozen=True, slots=True)
class _Merging:
    region: Region
    factoring: Factoring

    def merge(self, order: Sequence[Factor]) -> tuple[Run, ...]:
        """Merges the factors of one side: both operands lie in memory as matrices anyway."""
        sequences = [seq for seq, _ in stored_sequences(self.region, self.factoring)]
        sequences += indexed_dims(self.region.eqns, self.factoring)
        present = [flat(dims) for dims in self.factoring.values.values()]
        runs: list[Run] = []
        for factor in order:
            joins = runs and all(
                has_neither_or_neighbours(seq, runs[-1][-1], factor) for seq in sequences
            )
            if joins and all((runs[-1][-1] in p) == (factor in p) for p in present):
                runs[-1] = (*runs[-1], factor)
            else:
                runs.append((factor,))
        return tuple(runs)
