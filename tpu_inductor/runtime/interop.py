"""Host memory as torch and as numpy see it.

A numpy view from here is dense, row-major, and keeps its tensor alive, but leaves its storage free
to be resized: it is valid while the storage lies where it did. A tensor from here owns the buffer
of the array it was made from, or memory of torch's own with a copy.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from jax._src.lib import _jax
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from tpu_inductor.errors import LaunchError
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType, TensorType

_EXTENDED: dict[DType, np.dtype[Any]] = {
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F8E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
}
"""The types that numpy itself lacks."""

NUMPY_DTYPE: dict[DType, np.dtype[Any]] = {
    d: _EXTENDED[d] if d in _EXTENDED else np.dtype(d.value) for d in DType
}
"""The numpy type of every element type."""


def view_numpy(tensor: Tensor, dtype: DType) -> np.ndarray[Any, Any]:
    """`tensor`, a CPU tensor of `dtype`, as a dense numpy array; a copy only where it must be.

    Raises LaunchError for a tensor whose storage has been emptied.
    """
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_neg().resolve_conj()
    tensor = tensor.contiguous()
    size, pointer = tensor.nbytes, tensor.data_ptr()
    if not size:
        return np.empty(tensor.shape, NUMPY_DTYPE[dtype])
    if not pointer:
        raise LaunchError(
            f"a tensor {tuple(tensor.shape)} has no memory: its storage was resized to 0 and not "
            "back before the call. Resize the storage and fill it first"
        )
    # `Tensor.numpy` would forbid torch to resize the storage from then on.
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    memory.tensor = tensor  # which thereby lives as long as the array does
    return np.ndarray(tensor.shape, NUMPY_DTYPE[dtype], memory)


def adopt_array(array: Any) -> Tensor:
    """The buffer of a jax CPU array as a tensor that owns it.

    The array must be ready and unused elsewhere: whoever holds the tensor may write to it.
    """
    # `array.__dlpack__()` and numpy's protocols each cost several times as much.
    tensor = from_dlpack(_jax.buffer_to_dlpack_managed_tensor(array))
    # XLA gives empty arrays strides of zero.
    return tensor if tensor.numel() else torch.empty(tensor.shape, dtype=tensor.dtype)


def copier(type_: TensorType) -> Callable[[Any], Tensor]:
    """Copies jax CPU arrays of `type_`, which must be ready, into memory that torch allocates.

    Only such memory can be resized: a storage that torch has adopted has the size that it has.
    """
    shape, dtype, size = type_.dims, TORCH_DTYPE[type_.dtype], type_.nbytes

    # Half the time of adopting the array and cloning it.
    def copy(array: Any) -> Tensor:
        made = torch.empty(shape, dtype=dtype)
        ctypes.memmove(made.data_ptr(), array.unsafe_buffer_pointer(), size)
        return made

    return copy
