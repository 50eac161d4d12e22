"""Bitwise logic and shifts of integers and bools."""

from typing import Any

import torch
from torch._ops import OpOverload

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value
from tpu_inductor.lowerings.promote import exact
from tpu_inductor.lowerings.registry import Lowering, lowering

aten = torch.ops.aten

_BITWISE: dict[str, tuple[OpOverload, ...]] = {
    "and": (
        aten.bitwise_and.Tensor,
        aten.bitwise_and.Scalar,
        aten.bitwise_and.Scalar_Tensor,
        aten.__and__.Tensor,
        aten.__and__.Scalar,
    ),
    "or": (
        aten.bitwise_or.Tensor,
        aten.bitwise_or.Scalar,
        aten.bitwise_or.Scalar_Tensor,
        aten.__or__.Tensor,
        aten.__or__.Scalar,
    ),
    "xor": (
        aten.bitwise_xor.Tensor,
        aten.bitwise_xor.Scalar,
        aten.bitwise_xor.Scalar_Tensor,
        aten.__xor__.Tensor,
        aten.__xor__.Scalar,
    ),
}
_SHIFTS: dict[str, tuple[OpOverload, ...]] = {
    "shift_left": (
        aten.bitwise_left_shift.Tensor,
        aten.bitwise_left_shift.Tensor_Scalar,
        aten.bitwise_left_shift.Scalar_Tensor,
        aten.__lshift__.Tensor,
        aten.__lshift__.Scalar,
    ),
    "shift_right": (
        aten.bitwise_right_shift.Tensor,
        aten.bitwise_right_shift.Tensor_Scalar,
        aten.bitwise_right_shift.Scalar_Tensor,
        aten.__rshift__.Tensor,
        aten.__rshift__.Scalar,
    ),
}


def _bitwise(prim: str) -> Lowering:
    def lower(b: Builder, x: Any, other: Any) -> Value:
        return exact(b, lambda p, q: b.op(prim, p, q), x, other)

    return lower


def _shift(prim: str) -> Lowering:
    def lower(b: Builder, x: Any, other: Any) -> Value | Reject:
        if not b.out[0].dtype.is_int:
            return Reject(f"a shift of {b.out[0].dtype.short}")
        return exact(b, lambda p, q: b.op(prim, p, q), x, other)

    return lower


for _prim, _ops in _BITWISE.items():
    lowering(*_ops)(_bitwise(_prim))
for _prim, _ops in _SHIFTS.items():
    lowering(*_ops)(_shift(_prim))


@lowering(aten.bitwise_not.default)
def bitwise_not(b: Builder, x: Any) -> Value:
    return b.op("not", x)
