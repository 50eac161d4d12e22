"""Dimension and size arguments of ATen operators, made plain: wrapped, and known at import."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var

Size: TypeAlias = Any
"""A size, offset or index argument: an int, or a graph value where `is_dynamic` says so."""

DYNAMIC = Reject("a size, offset or dimension is known only at run time")


def wrap_dim(dim: int, rank: int) -> int:
    """`dim` counted from the front; a 0-dimensional tensor counts as one of rank 1."""
    return dim % max(rank, 1)


def wrap_dims(dims: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """`wrap_dim` of one or several dimensions, in the order given."""
    return tuple(wrap_dim(d, rank) for d in ([dims] if isinstance(dims, int) else dims))


def is_dynamic(*args: object) -> bool:
    """Whether a number among `args`, or in a list among them, is a value of the graph."""
    return any(
        is_dynamic(*arg) if isinstance(arg, list | tuple) else isinstance(arg, Var | Lit)
        for arg in args
    )


def move_dims(b: Builder, x: Value, source: Sequence[int], target: Sequence[int]) -> Var:
    """`x` with dimensions `source` at the positions `target` of the result, as numpy.moveaxis."""
    rank = x.type.rank
    rest = iter(d for d in range(rank) if d not in source)
    at = dict(zip(target, source, strict=True))
    return b.transpose(x, [at[d] if d in at else next(rest) for d in range(rank)])


def at_least_1d(b: Builder, x: Value) -> Var:
    """`x`, or a 0-dimensional `x` with one dimension of extent 1."""
    return b.reshape(x, (1,)) if x.type.rank == 0 else b.tensor(x)
