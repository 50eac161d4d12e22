"""Strides as permutations: which order of dimensions makes a tensor dense and row-major."""

import math
from collections.abc import Sequence

import torch


def identity(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def invert(perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `perm`: `x.permute(perm).permute(invert(perm))` is `x`."""
    return tuple(perm.index(d) for d in range(len(perm)))


def dense_permutation(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """`perm` such that `x.permute(perm)` is dense and row-major; None if there is none.

    Dimensions of extent 1 say nothing and stay where they are; an empty tensor is always dense.
    """
    if math.prod(shape) == 0:
        return identity(len(shape))
    places = [d for d, extent in enumerate(shape) if extent != 1]
    order = sorted(places, key=lambda d: -strides[d])
    expected = 1
    for d in reversed(order):
        if strides[d] != expected:
            return None
        expected *= shape[d]
    perm = list(range(len(shape)))
    for place, dim in zip(places, order, strict=True):
        perm[place] = dim
    return tuple(perm)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is an ordinary strided tensor without a pending negation or conjugation."""
    strided = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized
    return strided and not tensor.is_neg() and not tensor.is_conj()


def layout_name(tensor: torch.Tensor) -> str:
    """What is not plain about `tensor`, for messages."""
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.is_quantized:
        return "a quantised tensor"
    if tensor.layout is not torch.strided:
        return f"a {tensor.layout} tensor"
    return "a lazily conjugated or negated tensor"
