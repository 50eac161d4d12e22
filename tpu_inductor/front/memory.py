"""Memory for tensors, laid out as a graph's signature or an operator wants it."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch._C._dynamo.guards import (
    _reinterpret_tensor,  # pyright: ignore[reportAttributeAccessIssue] - its stub lacks it
)

from tpu_inductor.graph.signature import Layout
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE


def reinterpret_tensor(
    tensor: Tensor, shape: Sequence[int], strides: Sequence[int], ahead: int
) -> Tensor:
    """A tensor in the storage of `tensor`, `ahead` elements after its first one; not a view of it.

    It is torch's own, of Inductor's runtime, which is far faster than a call of an operator.
    """
    return cast(Tensor, _reinterpret_tensor(tensor, shape, strides, ahead))


def lies_as(tensor: Tensor, layout: Layout) -> bool:
    """Whether `tensor` lies in its storage as `layout` says."""
    return tensor.stride() == layout.strides and tensor.storage_offset() == layout.offset


def lay_out(tensor: Tensor, layout: Layout) -> Tensor:
    """A copy of `tensor` that lies as `layout` in a storage of its own, without autograd.

    Elements that share a place are equal, and are written once; places between elements hold
    whatever was there, as in torch.
    """
    memory = torch.empty(layout.extent, dtype=TORCH_DTYPE[layout.dtype])
    made = reinterpret_tensor(memory, layout.shape, layout.strides, layout.offset)
    target, source = made, tensor.detach()
    for dim, (extent, stride) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        if stride == 0 and extent > 1:
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    target.copy_(source)
    return made
