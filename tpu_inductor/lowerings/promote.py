"""Torch's type promotion for pointwise lowerings.

`pointwise(b, fn, x, 2)` computes `fn` in the type that torch computes in (f32 for bf16 and f16) and
rounds once to the type of the result; `exact` does the same without leaving the result's type, for
operators that only choose or negate; `compare` brings operands to their common type.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Lit, Value, Var
from tpu_inductor.graph.torch_dtypes import FROM_TORCH, TORCH_DTYPE
from tpu_inductor.graph.types import DType, Scalar

Operand = Any
"""A graph value or a Python number, as lowerings receive them."""

_NARROW = (DType.BF16, DType.F16, DType.F8E4M3, DType.F8E5M2)


def promote(b: Builder, kind: Kind, *args: Operand) -> tuple[DType, DType, list[Value]]:
    """(type to compute in, type of the result, `args` in the former).

    The result type is the one that torch gives the node being lowered; ALWAYS_BOOL leaves operands
    in their common type, as comparisons do not round through f32.
    """
    if kind is Kind.ALWAYS_BOOL:
        compute, result = common_dtype(*args), DType.BOOL
    else:
        result = b.out[0].dtype
        compute = result if kind is Kind.NO_OPMATH else opmath_dtype(result)
    return compute, result, [as_type(b, x, compute) for x in args]


def pointwise(b: Builder, fn: Callable[..., Value], *args: Operand) -> Value:
    """`fn` of `args` in the type that torch computes in, rounded to the result type."""
    _, result, values = promote(b, Kind.DEFAULT, *args)
    return b.convert(fn(*values), result)


def exact(b: Builder, fn: Callable[..., Value], *args: Operand) -> Value:
    """`fn` of `args` in the result type, for operators that do not round."""
    _, _, values = promote(b, Kind.NO_OPMATH, *args)
    return fn(*values)


def compare(b: Builder, fn: Callable[..., Value], *args: Operand) -> Value:
    """`fn` of `args` in their common type."""
    _, _, values = promote(b, Kind.ALWAYS_BOOL, *args)
    return fn(*values)


def opmath_dtype(dtype: DType) -> DType:
    """What torch computes in where the result is `dtype`."""
    return DType.F32 if dtype in _NARROW else dtype


def common_dtype(*args: Operand) -> DType:
    """The type that torch brings `args` to: dimensions win over 0-d tensors, those over numbers."""
    _, result = elementwise_dtypes(*map(_stand_in, args), type_promotion_kind=Kind.NO_OPMATH)
    return FROM_TORCH[result]


def as_type(b: Builder, x: Operand, dtype: DType) -> Value:
    """A value or a Python number as `dtype`."""
    if isinstance(x, Var | Lit):
        return b.convert(x, dtype)
    return number(b, x, dtype)


def number(b: Builder, x: Scalar, dtype: DType) -> Lit:
    """A literal that `dtype` holds exactly, so that computing in a wider type cannot change it."""
    if dtype in _NARROW:
        return b.lit(torch.tensor(x, dtype=TORCH_DTYPE[dtype]).item(), dtype)
    return b.lit(x, dtype)


def _stand_in(x: Operand) -> Any:
    if not isinstance(x, Var | Lit):
        return x
    shape = (1,) if x.type.rank else ()
    return torch.empty(shape, dtype=TORCH_DTYPE[x.type.dtype], device="meta")
