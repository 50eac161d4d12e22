"""Comparisons, logic, tests of single numbers, and choices between two."""

import math
from typing import Any

import torch
from torch._ops import OpOverload

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.promote import as_type, compare, exact
from tpu_inductor.lowerings.registry import Lowering, lowering

aten = torch.ops.aten

_COMPARISONS: dict[str, tuple[OpOverload, ...]] = {
    "eq": (aten.eq.Tensor, aten.eq.Scalar),
    "ne": (aten.ne.Tensor, aten.ne.Scalar),
    "lt": (aten.lt.Tensor, aten.lt.Scalar),
    "le": (aten.le.Tensor, aten.le.Scalar),
    "gt": (aten.gt.Tensor, aten.gt.Scalar),
    "ge": (aten.ge.Tensor, aten.ge.Scalar),
}
_LOGICAL: dict[OpOverload, str] = {
    aten.logical_and.default: "and",
    aten.logical_or.default: "or",
    aten.logical_xor.default: "xor",
}


def _comparison(prim: str) -> Lowering:
    def lower(b: Builder, x: Any, other: Any) -> Value:
        return compare(b, lambda p, q: compare_values(b, prim, p, q), x, other)

    return lower


def compare_values(b: Builder, prim: str, x: Value, y: Value) -> Value:
    """A comparison; bools are compared as numbers, or by logic where that is the same."""
    if x.type.dtype is not DType.BOOL:
        return b.op(prim, x, y)
    if prim == "ne":
        return b.op("xor", x, y)
    if prim == "eq":
        return b.op("not", b.op("xor", x, y))
    return b.op(prim, b.convert(x, DType.I32), b.convert(y, DType.I32))


def _logical(prim: str) -> Lowering:
    def lower(b: Builder, x: Any, other: Any) -> Value:
        return b.op(prim, as_type(b, x, DType.BOOL), as_type(b, other, DType.BOOL))

    return lower


for _prim, _ops in _COMPARISONS.items():
    lowering(*_ops)(_comparison(_prim))
for _op, _logic in _LOGICAL.items():
    lowering(_op)(_logical(_logic))


@lowering(aten.logical_not.default)
def logical_not(b: Builder, x: Any) -> Value:
    return b.op("not", as_type(b, x, DType.BOOL))


@lowering(aten.isnan.default)
def isnan(b: Builder, x: Any) -> Value:
    if not x.type.dtype.is_float:
        return b.full(x.type.shape, DType.BOOL, False)
    return b.op("is_nan", x)


@lowering(aten.isinf.default)
def isinf(b: Builder, x: Any) -> Value:
    if not x.type.dtype.is_float:
        return b.full(x.type.shape, DType.BOOL, False)
    return b.op("eq", b.op("abs", x), b.lit(math.inf, x.type.dtype))


@lowering(aten.isfinite.default)
def isfinite(b: Builder, x: Any) -> Value:
    if not x.type.dtype.is_float:
        return b.full(x.type.shape, DType.BOOL, True)
    return b.op("lt", b.op("abs", x), b.lit(math.inf, x.type.dtype))


@lowering(aten.where.self)
def where(b: Builder, condition: Any, x: Any, other: Any) -> Value:
    pred = as_type(b, condition, DType.BOOL)
    return exact(b, lambda p, q: b.op("select", pred, p, q), x, other)


@lowering(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(b: Builder, x: Any, mask: Any, value: Any) -> Value:
    return exact(b, lambda p, v: b.op("select", as_type(b, mask, DType.BOOL), v, p), x, value)
