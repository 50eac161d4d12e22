"""Host memory as torch and as numpy see it, without copies.

Types that numpy lacks (bfloat16, float8) become arrays as integers of their width. A numpy view
from here is dense, row-major, and keeps its tensor's memory alive; a tensor from here owns the
buffer of the array it was made from.
"""

from typing import Any

import ml_dtypes
import numpy as np
import torch
from jax._src.lib import _jax
from torch import Tensor
from torch.utils.dlpack import from_dlpack

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


def adopt_array(array: Any) -> Tensor:
    """The buffer of a jax CPU array as a tensor that owns it.

    The array must be ready and unused elsewhere: whoever holds the tensor may write to it.
    """
    # `array.__dlpack__()` and numpy's protocols each cost several times as much.
    tensor = from_dlpack(_jax.buffer_to_dlpack_managed_tensor(array))
    # XLA gives empty arrays strides of zero.
    return tensor if tensor.numel() else torch.empty(tensor.shape, dtype=tensor.dtype)
