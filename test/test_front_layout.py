"""Strides as permutations."""

import pytest
import torch

from tpu_inductor.front.layout import dense_permutation, invert, is_plain


@pytest.mark.parametrize(
    ("tensor", "perm"),
    [
        (torch.empty(2, 3), (0, 1)),
        (torch.empty(2, 3).t(), (1, 0)),
        (torch.empty(2, 3, 4, 5).permute(0, 3, 1, 2), (0, 2, 3, 1)),
        (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last), (0, 2, 3, 1)),
        (torch.empty(4, 1, 1).to(memory_format=torch.preserve_format), (0, 1, 2)),
        (torch.empty(1, 3, 1, 2).permute(3, 0, 1, 2), (2, 1, 0, 3)),
        (torch.empty(0, 3).t(), (0, 1)),
        (torch.empty(()), ()),
    ],
)
def test_dense_permutation(tensor: torch.Tensor, perm: tuple[int, ...]) -> None:
    assert dense_permutation(tensor.shape, tensor.stride()) == perm
    dense = tensor.permute(perm)
    assert dense.is_contiguous()
    assert dense.permute(invert(perm)).stride() == tensor.stride()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(4, 4)[:, :2],
        torch.empty(4, 1).expand(4, 3),
        torch.empty(10).as_strided((3, 3), (2, 1)),
        torch.empty(8)[::2],
    ],
)
def test_no_permutation_of_holes_and_overlaps(tensor: torch.Tensor) -> None:
    assert dense_permutation(tensor.shape, tensor.stride()) is None


def test_lazy_bits_and_sparse_are_not_plain() -> None:
    assert is_plain(torch.empty(2))
    assert not is_plain(torch.empty(2, 2).to_sparse())
    assert not is_plain(torch.empty(2, dtype=torch.complex64).conj())
