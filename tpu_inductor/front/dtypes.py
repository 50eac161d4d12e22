"""Element types of torch and of the graph IR, both ways."""

import torch

from tpu_inductor.graph.torch_dtypes import FROM_TORCH, TORCH_DTYPE
from tpu_inductor.graph.types import DType


def to_torch_dtype(dtype: DType) -> torch.dtype:
    return TORCH_DTYPE[dtype]


def from_torch_dtype(dtype: torch.dtype) -> DType | None:
    """The IR's name of `dtype`, or None for types that the IR does not know."""
    return FROM_TORCH.get(dtype)
