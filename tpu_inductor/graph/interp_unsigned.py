"""Types that torch stores but hardly computes on: uint16, uint32, uint64 and float8.

They run in a type that torch computes on, by an encoding that the primitive respects:
uint16 and uint32 as int64 by value; float8 by its bits; uint64 by its bits, or, where order
matters, by its bits with the highest one flipped. Division and right shift of uint64 respect no
encoding: numpy does them.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE

_NARROW = (torch.uint16, torch.uint32)
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_BY_ORDER = frozenset(
    [
        "lt",
        "le",
        "gt",
        "ge",
        "max",
        "min",
        "reduce_max",
        "reduce_min",
        "argmax",
        "argmin",
        "cummax",
        "cummin",
        "sort",
    ]
)
_BY_VALUE = frozenset(["convert", "bitcast"])
_MOVES = frozenset(
    [
        "select",
        "broadcast",
        "reshape",
        "transpose",
        "slice",
        "pad",
        "concat",
        "rev",
        "gather",
        "scatter",
    ]
)
UINT64_BY_NUMPY = frozenset(["idiv", "rem", "shift_right"])
_SIGN = -(2**63)


def run_uint64(prim: str, x: Tensor, y: Tensor) -> Tensor:
    """`idiv`, `rem` and `shift_right` of uint64."""
    left, right = x.numpy(), y.numpy()
    if prim == "shift_right":
        inside = right < 64
        out = np.where(inside, left >> np.where(inside, right, 0), 0)
    else:
        zero = right == 0
        divisor = np.where(zero, 1, right)
        if prim == "idiv":
            out = np.where(zero, np.uint64(2**64 - 1), left // divisor)
        else:
            out = np.where(zero, left, left % divisor)
    return torch.from_numpy(np.asarray(out, np.uint64))


def encode_operands(prim: str, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    """The operands in types that torch computes on."""
    if prim in _BY_VALUE:
        return operands
    return [_encode(prim, x) for x in operands]


def _encode(prim: str, x: Tensor) -> Tensor:
    if x.dtype in _NARROW:
        return x.to(torch.int64)
    if x.dtype in _FLOAT8 and prim in _MOVES:
        return x.contiguous().view(torch.uint8)
    if x.dtype is not torch.uint64:
        return x
    bits = x.contiguous().view(torch.int64)
    return bits ^ _SIGN if prim in _BY_ORDER else bits


def decode_results(
    eqn: Eqn, operands: Sequence[Tensor], results: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """The results of an encoded computation in the types that `eqn` gives them."""
    if eqn.prim in _BY_VALUE or not any(_is_encoded(eqn.prim, x) for x in operands):
        return results
    wanted = [TORCH_DTYPE[v.type.dtype] for v in eqn.outputs]
    return tuple(_decode(eqn.prim, r, t) for r, t in zip(results, wanted, strict=True))


def _is_encoded(prim: str, x: Tensor) -> bool:
    return x.dtype in (*_NARROW, torch.uint64) or (x.dtype in _FLOAT8 and prim in _MOVES)


def _decode(prim: str, result: Tensor, wanted: torch.dtype) -> Tensor:
    if wanted in _NARROW:
        return result.to(wanted)
    if wanted in _FLOAT8:
        return result.contiguous().view(wanted)
    if wanted is not torch.uint64:
        return result
    bits = result ^ _SIGN if prim in _BY_ORDER else result
    return bits.contiguous().view(wanted)
