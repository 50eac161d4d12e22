"""Convolutions and their gradients against the operators themselves."""

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject

aten = torch.ops.aten

CASES = [
    # rank, groups, stride, padding, dilation, transposed, output padding
    (1, 1, 1, 0, 1, False, 0),
    (1, 2, 2, 3, 2, False, 0),
    (2, 1, 2, 1, 1, False, 0),
    (2, 4, 3, 2, 2, False, 0),
    (3, 2, 2, 1, 1, False, 0),
    (1, 1, 2, 1, 1, True, 1),
    (2, 2, 3, 0, 2, True, 2),
    (2, 1, 2, 4, 1, True, 1),
    (2, 2, 2, 1, 4, True, 3),
    (3, 2, 2, 1, 1, True, 0),
]


def operands(rank: int, groups: int, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(2, 4, *(7 + d for d in range(rank)))
    shape = (4, 6 // groups) if transposed else (8, 4 // groups)
    groups_fit = shape if groups < 4 else (4, 1)
    return x, torch.randn(*groups_fit, *(3, 2, 3)[:rank])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_convolution_and_gradient(case: tuple[int, ...], has_bias: bool) -> None:
    rank, groups, stride, padding, dilation, transposed, extra = case
    x, weight = operands(rank, groups, bool(transposed))
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    bias = torch.randn(channels) if has_bias else None
    rest = ([stride], [padding], [dilation], bool(transposed), [extra], groups)
    rest = tuple(v * rank if isinstance(v, list) else v for v in rest)
    check(aten.convolution.default, x, weight, bias, *rest)
    grad = torch.randn_like(aten.convolution.default(x, weight, bias, *rest))
    mask = [True, True, has_bias]
    check(aten.convolution_backward.default, grad, x, weight, [channels], *rest, mask)


def test_gradients_that_nobody_wants_are_left_out() -> None:
    x, weight = operands(2, 1, False)
    rest = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    grad = aten.convolution.default(x, weight, None, *rest)
    mask = [False, True, False]
    graph = check(aten.convolution_backward.default, grad, x, weight, None, *rest, mask)
    assert len(graph.outputs) == 1


def test_integer_convolution_is_rejected() -> None:
    x, weight = (t.long() for t in operands(1, 1, False))
    rest = ([1], [0], [1], False, [0], 1)
    assert isinstance(lower(aten.convolution.default, x, weight, None, *rest), Reject)


def test_im2col() -> None:
    check(aten.im2col.default, torch.randn(2, 3, 7, 8), [3, 2], [1, 2], [1, 0], [2, 1])
    check(aten.im2col.default, torch.randn(3, 7, 8), [2, 2], [1, 1], [0, 0], [1, 1])
