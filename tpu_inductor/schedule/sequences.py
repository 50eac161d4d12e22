"""The sequences of factors in which a region's values lie in memory, and factors as axes."""

import itertools
from collections.abc import Sequence
from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.prims import ARG_REDUCE
from tpu_inductor.regions.factors import Dims, Factor, Factoring
from tpu_inductor.regions.region import Region
from tpu_inductor.schedule.arrays import Axis


def stored_sequences(region: Region, factoring: Factoring) -> list[tuple[tuple[Factor, ...], int]]:
    """The factor sequence and the bytes of every operand and result."""
    reads = [
        (sequence(dims), region.eqns[a.eqn].inputs[a.slot].type.nbytes)
        for a, dims in factoring.accesses.items()
    ]
    return reads + [(sequence(factoring.values[v]), v.type.nbytes) for v in region.outputs]


def indexed_dims(eqns: tuple[Eqn, ...], factoring: Factoring) -> list[tuple[Factor, ...]]:
    """The dimensions whose position is itself a value: those of iota, argmax and argmin."""
    found: list[tuple[Factor, ...]] = []
    for index, eqn in enumerate(eqns):
        if isinstance(eqn.attrs, A.Iota):
            found.append(factoring.values[eqn.out][eqn.attrs.dim])
        elif eqn.prim in ARG_REDUCE:
            found.append(factoring.of(eqns, index, 0)[cast(A.Axis, eqn.attrs).dim])
    return found


def axis_of(name: str, run: tuple[Factor, ...], factoring: Factoring) -> Axis:
    size = 1
    for factor in run:
        size *= factor.size
    is_reduced = run[0] in factoring.reduced or run[0] in factoring.contracted
    return Axis(name, run, size, size, is_reduced=is_reduced)


def sequence(dims: Dims) -> tuple[Factor, ...]:
    return tuple(itertools.chain.from_iterable(dims))


def has_neither_or_neighbours(seq: Sequence[Factor], left: Factor, right: Factor) -> bool:
    if (left in seq) != (right in seq):
        return False
    return left not in seq or seq.index(right) == seq.index(left) + 1
