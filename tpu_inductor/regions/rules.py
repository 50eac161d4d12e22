"""Join rules: one function per reason to refuse a set of equations as one kernel.

Every rule sees the whole proposed region. Adding a "no" is adding a function to `JOIN_RULES`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from tpu_inductor.errors import Reject
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Var
from tpu_inductor.graph.prims import ARG_REDUCE, PRIMS, Kind
from tpu_inductor.regions.factors import Dims, Factor, Factoring
from tpu_inductor.target import TpuTarget


@dataclass(frozen=True, slots=True)
class Proposal:
    """Equations in order, their factors, and those of their values that are needed outside."""

    eqns: tuple[Eqn, ...]
    factoring: Factoring
    outputs: tuple[Var, ...]
    target: TpuTarget

    @property
    def dots(self) -> list[int]:
        return [i for i, e in enumerate(self.eqns) if PRIMS[e.prim].kind is Kind.DOT]

    @property
    def reductions(self) -> list[int]:
        return [i for i, e in enumerate(self.eqns) if PRIMS[e.prim].kind is Kind.REDUCE]


def flat(dims: Dims) -> frozenset[Factor]:
    """The factors of all dimensions together."""
    return frozenset(f for dim in dims for f in dim)


def one_contraction(p: Proposal) -> Reject | None:
    """A kernel has one accumulator tile on the MXU."""
    return Reject("two matmuls do not share a kernel") if len(p.dots) > 1 else None


def contraction_apart_from_reduction(p: Proposal) -> Reject | None:
    """A row of a matmul's result is spread over tiles, so it cannot be reduced in its epilogue."""
    return Reject("a reduction does not join a matmul") if p.dots and p.reductions else None


def contraction_is_matrix_product(p: Proposal) -> Reject | None:
    """The MXU takes two matrices: rows, columns and a contracted extent."""
    for i in p.dots:
        attrs = cast(A.Dot, p.eqns[i].attrs)
        lhs, rhs = p.factoring.of(p.eqns, i, 0), p.factoring.of(p.eqns, i, 1)
        rows = any(lhs[d] for d in attrs.free("lhs", len(lhs)))
        cols = any(rhs[d] for d in attrs.free("rhs", len(rhs)))
        if not (rows and cols and p.factoring.contracted):
            return Reject("a matrix-vector product has nothing for the MXU to reuse")
    return None


def contraction_is_full(p: Proposal) -> Reject | None:
    """Every tile of results needs its own tile of the product, and nothing follows over k."""
    for i in p.dots:
        out = flat(p.factoring.values[p.eqns[i].out])
        if out != p.factoring.parallel:
            return Reject("the matmul would run once for every element that it is broadcast to")
        after = {v for e in p.eqns[i + 1 :] for v in e.outputs if _depends(p, v, i)}
        if any(flat(p.factoring.values[v]) & p.factoring.contracted for v in after):
            return Reject("the contracted axis is used again after the matmul")
    return None


def contraction_lies_together(p: Proposal) -> Reject | None:
    """The contracted dimensions are one tiled axis, so they are neighbours wherever stored."""
    for i in p.dots:
        attrs, lhs = cast(A.Dot, p.eqns[i].attrs), p.factoring.of(p.eqns, i, 0)
        order = [f for d in attrs.lhs_contract for f in lhs[d]]
        for dims in p.factoring.accesses.values():
            stored = [f for dim in dims for f in dim]
            places = [stored.index(f) for f in order if f in stored]
            if places and places != list(range(places[0], places[0] + len(order))):
                return Reject("the contracted dimensions do not lie together in memory")
    return None


def contraction_columns_stay_together(p: Proposal) -> Reject | None:
    """The columns of a matmul are one tiled axis; only part of them is no block."""
    for i in p.dots:
        attrs, rhs = cast(A.Dot, p.eqns[i].attrs), p.factoring.of(p.eqns, i, 1)
        columns = flat(tuple(rhs[d] for d in attrs.free("rhs", len(rhs))))
        for dims in (*p.factoring.accesses.values(), *p.factoring.values.values()):
            if flat(dims) & columns not in (frozenset(), columns):
                return Reject("it varies along only part of the matmul's columns")
    return None


def prologue_is_cheap(p: Proposal) -> Reject | None:
    """What precedes a matmul is computed again for every tile that reads it."""
    for i in p.dots:
        for eqn in p.eqns[:i]:
            heavy = PRIMS[eqn.prim].kind is Kind.POINTWISE and eqn.prim != "convert"
            if heavy and _feeds(p, eqn.out, i):
                return Reject(f"{eqn.prim} before a matmul would be computed once per tile")
    return None


def reductions_close_one_space(p: Proposal) -> Reject | None:
    """All reductions of a kernel run over the same axes, from values that have every axis."""
    every = p.factoring.factors
    for i in p.reductions:
        eqn = p.eqns[i]
        inside = flat(p.factoring.of(p.eqns, i, 0))
        closed = inside - flat(p.factoring.values[eqn.out])
        if closed != p.factoring.reduced:
            return Reject("reductions over different axes do not share a kernel")
        if inside != every:
            return Reject("the reduction would run again for every element it is broadcast to")
    return None


def outputs_are_full(p: Proposal) -> Reject | None:
    """A result that lacks a parallel axis would be written once per step of that axis."""
    for var in p.outputs:
        if not flat(p.factoring.values[var]) >= p.factoring.parallel:
            return Reject(f"{var} is smaller than the region's iteration space")
    return None


def resident_rows_fit(p: Proposal) -> Reject | None:
    """What uses a reduction's result along the reduced axis keeps that axis whole in VMEM."""
    if not needs_resident(p.eqns, p.factoring):
        return None
    full = p.factoring.factors
    wide = {v for v, dims in p.factoring.values.items() if flat(dims) == full}
    ends = len(wide.intersection(p.outputs)) + len(
        {d for d in p.factoring.accesses.values() if flat(d) == full}
    )
    row = math.prod(f.size for f in p.factoring.reduced)
    least = row * _minimum_rows(p) * 4 * (2 * ends + 2)
    if least <= p.target.vmem_limit_bytes:
        return None
    return Reject(
        f"{row} reduced elements need {least >> 10} KiB of VMEM, the limit is "
        f"{p.target.vmem_limit_bytes >> 10} KiB"
    )


def needs_resident(eqns: tuple[Eqn, ...], factoring: Factoring) -> bool:
    """Whether a value depends on a reduction and has the reduced axes (again)."""
    tainted: set[Var] = set()
    for eqn in eqns:
        is_reduction = PRIMS[eqn.prim].kind is Kind.REDUCE
        if tainted.intersection(eqn.operands):
            if is_reduction or flat(factoring.values[eqn.out]) & factoring.reduced:
                return True
            tainted.update(eqn.outputs)
        elif is_reduction:
            if eqn.prim in ARG_REDUCE:
                return True
            tainted.update(eqn.outputs)
    return False


def _minimum_rows(p: Proposal) -> int:
    """Elements of the smallest legal block beside the reduced axes: a sublane or a lane tile."""
    every = (*p.factoring.accesses.values(), *p.factoring.values.values())
    wide = next((dims for dims in every if flat(dims) == p.factoring.factors), ())
    minor = [f for dim in wide for f in dim][-1:]
    smallest = 8 if p.factoring.reduced.issuperset(minor) else p.target.lanes
    return min(smallest, math.prod(f.size for f in p.factoring.parallel) or 1)


def _depends(p: Proposal, var: Var, on: int) -> bool:
    reached = set(p.eqns[on].outputs)
    for eqn in p.eqns[on + 1 :]:
        if reached.intersection(eqn.operands):
            reached.update(eqn.outputs)
    return var in reached


def _feeds(p: Proposal, var: Var, dot: int) -> bool:
    needed = set(p.eqns[dot].operands)
    for eqn in reversed(p.eqns[:dot]):
        if needed.intersection(eqn.outputs):
            needed.update(eqn.operands)
    return var in needed


JOIN_RULES: tuple[Callable[[Proposal], Reject | None], ...] = (
    one_contraction,
    contraction_apart_from_reduction,
    contraction_is_matrix_product,
    contraction_is_full,
    contraction_lies_together,
    contraction_columns_stay_together,
    prologue_is_cheap,
    reductions_close_one_space,
    outputs_are_full,
    resident_rows_fit,
)
