"""Host memory as torch and as numpy see it, without copies.

Types that numpy lacks (bfloat16, float8) cross as integers of their width. A numpy view from here
is dense, row-major, and keeps its tensor's memory alive; a tensor from here owns its memory
through the array it was made from.
"""

from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType

_EXTENDED: dict[DType, tuple[torch.dtype, np.dtype[Any]]] = {
    DType.BF16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    DType.F8E4M3: (torch.int8, np.dtype(ml_dtypes.float8_e4m3fn)),
    DType.F8E5M2: (torch.int8, np.dtype(ml_dtypes.float8_e5m2)),
}
"""Types that cross as integers: the carrier in torch, and the type that jax knows in numpy."""

NUMPY_DTYPE: dict[DType, np.dtype[Any]] = {
    d: _EXTENDED[d][1] if d in _EXTENDED else np.dtype(d.value) for d in DType
}
"""The numpy type of every element type."""

_TYPESTR: dict[DType, str] = {
    d: np.dtype(f"i{d.itemsize}").str if d in _EXTENDED else NUMPY_DTYPE[d].str for d in DType
}


def view_numpy(tensor: Tensor, dtype: DType) -> np.ndarray[Any, Any]:
    """`tensor`, a CPU tensor of `dtype`, as a dense numpy array; a copy only where it must be."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_neg().resolve_conj()
    tensor = tensor.contiguous()
    extended = _EXTENDED.get(dtype)
    if extended is None:
        return tensor.numpy()
    carrier, wanted = extended
    return tensor.view(carrier).numpy().view(wanted)


class _Memory:
    """What numpy needs in order to see a jax array's buffer as ordinary writable memory."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, typestr: str) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": owner.shape,
            "typestr": typestr,
            "data": (owner.unsafe_buffer_pointer(), False),
            "version": 3,
        }


def adopt_array(array: Any, dtype: DType) -> Tensor:
    """The buffer of a jax CPU array as a tensor that owns it.

    The array must be ready and unused elsewhere: whoever holds the tensor may write to it.
    """
    if array.size == 0:
        return torch.empty(array.shape, dtype=TORCH_DTYPE[dtype])
    # numpy offers a jax array read-only and DLPack costs four times as much as this does.
    tensor = torch.from_numpy(np.asarray(_Memory(array, _TYPESTR[dtype])))
    return tensor.view(TORCH_DTYPE[dtype]) if dtype in _EXTENDED else tensor
