"""Factor rules: how a primitive relates the dimensions of its operands and its result.

`rule(unifier, eqn, operand dims, result dims)` unifies what the primitive makes one, and returns
the factors that end inside it (reduced or contracted). A primitive that has no common iteration
space raises Mismatch. One row per primitive.
"""

from typing import cast

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.core import Eqn, Lit
from tpu_inductor.graph.prims import PRIMS, Kind
from tpu_inductor.regions.factors import Dims, Factor, FactorRule, Mismatch, Unifier

Ended = tuple[Factor, ...]


def _pointwise(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    for value, dims in zip(eqn.inputs, operands, strict=True):
        if isinstance(value, Lit):
            continue
        for a, b in zip(dims, out, strict=True):
            u.unify(a, b)
    return ()


def _create(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    return ()


def _broadcast(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    attrs = cast(A.Broadcast, eqn.attrs)
    for dim, target in zip(operands[0], attrs.dims, strict=True):
        if dim:
            u.unify(dim, out[target])
    return ()


def _reshape(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    u.unify([f for dim in operands[0] for f in dim], [f for dim in out for f in dim])
    return ()


def _transpose(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    for target, source in enumerate(cast(A.Transpose, eqn.attrs).perm):
        u.unify(operands[0][source], out[target])
    return ()


def _reduce(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    attrs = eqn.attrs
    closed = (attrs.dim,) if isinstance(attrs, A.Axis) else cast(A.Dims, attrs).dims
    kept = [dim for i, dim in enumerate(operands[0]) if i not in closed]
    for a, b in zip(kept, out, strict=True):
        u.unify(a, b)
    return tuple(f for i in closed for f in operands[0][i])


def _dot(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    attrs, (lhs, rhs) = cast(A.Dot, eqn.attrs), operands
    for i, j in zip(attrs.lhs_contract, attrs.rhs_contract, strict=True):
        u.unify(lhs[i], rhs[j])
    for i, j in zip(attrs.lhs_batch, attrs.rhs_batch, strict=True):
        u.unify(lhs[i], rhs[j])
    sources = [lhs[i] for i in (*attrs.lhs_batch, *attrs.free("lhs", len(lhs)))]
    sources += [rhs[j] for j in attrs.free("rhs", len(rhs))]
    for source, target in zip(sources, out, strict=True):
        u.unify(source, target)
    return tuple(f for i in attrs.lhs_contract for f in lhs[i])


def _none(u: Unifier, eqn: Eqn, operands: tuple[Dims, ...], out: Dims) -> Ended:
    raise Mismatch


_VIEWS: dict[str, FactorRule] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
}
_BY_KIND: dict[Kind, FactorRule] = {
    Kind.POINTWISE: _pointwise,
    Kind.CREATE: _create,
    Kind.REDUCE: _reduce,
    Kind.DOT: _dot,
    Kind.OTHER: _none,
}

FACTOR_RULES: dict[str, FactorRule] = {
    name: _VIEWS[name] if prim.kind is Kind.VIEW else _BY_KIND[prim.kind]
    for name, prim in PRIMS.items()
}
"""The factor rule of every primitive."""
