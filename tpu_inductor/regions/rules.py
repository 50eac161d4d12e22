"""Join rules: one function per reason to refuse a set of equations as one kernel.

Every rule sees the whole proposed region. Adding a "no" is adding a function to `JOIN_RULES`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tpu_inductor.errors import Reject
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factors import Factor, flat
from tpu_inductor.regions.proposal import Proposal
from tpu_inductor.regions.region import Rows


@dataclass(frozen=True, slots=True)
class LongRows(Reject):
    """Rows that neither fit nor stream. They may once more equations have joined: a softmax does
    not stream, but what sums up its results does."""


def one_contraction(p: Proposal) -> Reject | None:
    """A kernel has one accumulator tile on the MXU."""
    return Reject("two matmuls do not share a kernel") if len(p.facts.dots) > 1 else None


def contraction_apart_from_reduction(p: Proposal) -> Reject | None:
    """A row of a matmul's result is spread over tiles, so it cannot be reduced in its epilogue."""
    both = p.facts.dots and p.facts.reductions
    return Reject("a reduction does not join a matmul") if both else None


def contraction_is_matrix_product(p: Proposal) -> Reject | None:
    """The MXU takes two matrices: rows, columns and a contracted extent."""
    for dot in p.facts.dots:
        rows = any(dot.lhs[d] for d in dot.attrs.free("lhs", len(dot.lhs)))
        cols = any(dot.rhs[d] for d in dot.attrs.free("rhs", len(dot.rhs)))
        if not (rows and cols and p.facts.contracted):
            return Reject("a matrix-vector product has nothing for the MXU to reuse")
    return None


def contraction_is_full(p: Proposal) -> Reject | None:
    """Every tile of results needs its own tile of the product, and nothing follows over k."""
    for dot in p.facts.dots:
        if flat(dot.out) != p.parallel:
            return Reject("the matmul would run once for every element that it is broadcast to")
        if any(flat(dims) & p.facts.contracted for dims in p.late.dims):
            return Reject("the contracted axis is used again after the matmul")
    return None


def contraction_lies_together(p: Proposal) -> Reject | None:
    """The contracted dimensions are one tiled axis, so they are neighbours wherever stored."""
    for dot in p.facts.dots:
        order = [f for d in dot.attrs.lhs_contract for f in dot.lhs[d]]
        for dims in p.facts.accesses:
            stored = [f for dim in dims for f in dim]
            places = [stored.index(f) for f in order if f in stored]
            if places and places != list(range(places[0], places[0] + len(order))):
                return Reject("the contracted dimensions do not lie together in memory")
    return None


def contraction_columns_stay_together(p: Proposal) -> Reject | None:
    """The columns of a matmul are one tiled axis; only part of them is no block."""
    for dot in p.facts.dots:
        columns = flat(tuple(dot.rhs[d] for d in dot.attrs.free("rhs", len(dot.rhs))))
        if any(flat(dims) & columns not in (frozenset(), columns) for dims in p.every):
            return Reject("it varies along only part of the matmul's columns")
    return None


def prologue_is_cheap(p: Proposal) -> Reject | None:
    """What precedes a matmul is computed again for every tile that reads it.

    What another matmul makes, in a region that streams, is computed once.
    """
    eqns = p.context.wiring.graph.eqns
    for value in (v for dot in p.facts.dots for v in eqns[dot.index].operands):
        prims = [eqns[i].prim for i in p.behind(value)]
        if p.streams and "dot" in prims:
            continue
        for prim in prims:
            if PRIMS[prim].kind is Kind.POINTWISE and prim != "convert":
                return Reject(f"{prim} before a matmul would be computed once per tile")
    return None


def reductions_close_one_space(p: Proposal) -> Reject | None:
    """All reductions of a kernel run over the same axes, from values that have every axis."""
    for inside, out in sorted(p.facts.reductions, key=p.facts.reductions.__getitem__):
        if flat(inside) - flat(out) != p.facts.reduced:
            return Reject("reductions over different axes do not share a kernel")
        if flat(inside) != p.factors:
            return Reject("the reduction would run again for every element it is broadcast to")
    return None


def outputs_are_full(p: Proposal) -> Reject | None:
    """A result that lacks a parallel axis would be written once per block of that axis."""
    small = [dims for dims in p.outputs if not flat(dims) >= p.parallel]
    if not small:
        return None
    return Reject(f"{p.first_output(small)} is smaller than the region's iteration space")


def resident_rows_fit_or_stream(p: Proposal) -> Reject | None:
    """What uses a reduction's result along the reduced axis keeps that axis whole in VMEM.

    A row that is too long for that is read in blocks, if what is kept of them can be repaired.
    """
    too_long = _reject_long_rows(p)
    if too_long is None:
        return None
    stream = p.stream()
    return LongRows(f"{too_long.reason}; {stream.reason}") if isinstance(stream, Reject) else None


def rows_of(p: Proposal) -> Rows:
    """What the kernel of an accepted proposal does with the axes that it reduces."""
    if p.streams:
        return Rows.STREAMED
    if not _returns_to_rows(p):
        return Rows.PASSED
    return Rows.KEPT if _reject_long_rows(p) is None else Rows.STREAMED


def _reject_long_rows(p: Proposal) -> Reject | None:
    if not _returns_to_rows(p):
        return None
    ends = sum(n for dims, n in p.outputs.items() if flat(dims) == p.factors)
    ends += sum(flat(dims) == p.factors for dims in p.facts.accesses)
    row = math.prod(f.size for f in p.facts.reduced)
    least = row * _minimum_rows(p) * 4 * (2 * ends + 2)
    if least <= p.target.vmem_limit_bytes:
        return None
    return Reject(
        f"{row} reduced elements need {least >> 10} KiB of VMEM, the limit is "
        f"{p.target.vmem_limit_bytes >> 10} KiB"
    )


def _returns_to_rows(p: Proposal) -> bool:
    """Whether what depends on a reduction has the reduced axes again, or is an index into them."""
    facts = p.facts
    if facts.searches or not facts.reductions:
        return facts.searches
    return p.late.reduces or any(flat(dims) & facts.reduced for dims in p.late.dims)


def _minimum_rows(p: Proposal) -> int:
    """Elements of the smallest legal block beside the reduced axes: a sublane or a lane tile."""
    wide = [d for d in p.facts.accesses if flat(d) == p.factors] or [
        d for d in p.facts.values if flat(d) == p.factors
    ]
    minor = {f for dims in wide for f in [f for dim in dims for f in dim][-1:]}
    smallest = 8 if p.facts.reduced >= minor else p.target.lanes
    return min(smallest, math.prod(f.size for f in p.parallel) or 1)


def joins_with_pointwise_alone(p: Proposal) -> Reject | None:
    """What streams has its contractions and reductions already."""
    for part in p.parts:
        if not part.streams and (part.facts.dots or part.facts.reductions):
            return Reject("no other matmul or reduction joins what streams")
    return None


def streams_along_one_axis(p: Proposal) -> Reject | None:
    """What is kept of each block can be repaired, and every result has the axes of the grid: those
    of what is made of the axis that streams, but that one."""
    stream = p.stream()
    if isinstance(stream, Reject):
        return stream
    dims = stream.factoring.values
    made = (flat(dims[e.out]) for e in stream.eqns if PRIMS[e.prim].kind is Kind.DOT)
    outer = frozenset[Factor]().union(*(m - stream.axis for m in made if m & stream.axis))
    small = [v for v in stream.outputs if not flat(dims[v]) >= outer]
    return Reject(f"{small[0]} lacks an axis of the scores") if small else None


STREAM_RULES: tuple[Callable[[Proposal], Reject | None], ...] = (
    joins_with_pointwise_alone,
    contraction_is_matrix_product,
    contraction_lies_together,
    prologue_is_cheap,
    streams_along_one_axis,
)
"""The rules of what streams along an axis that one contraction makes and another ends."""

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
    resident_rows_fit_or_stream,
)
