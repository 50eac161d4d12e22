"""Scaled dot product attention, forward and backward, against torch."""

import math

import pytest
import torch
from check_lowering import check, lower

from tpu_inductor.errors import Reject
from tpu_inductor.graph.interp import run

forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default

DTYPES = [torch.float32, torch.bfloat16, torch.float64]
MASKS = [None, (3, 7), (1, 7), (1, 4, 3, 7), (2, 1, 1, 7)]


def operands(dtype, heads=4, keys=7):
    torch.manual_seed(0)
    q, *kv = torch.randn(2, 4, 3, 8), torch.randn(2, heads, keys, 8), torch.randn(2, heads, keys, 8)
    return [x.to(dtype) for x in (q, *kv)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_forward_and_gradients_agree(shape, causal, dtype):
    if causal and shape:
        pytest.skip("torch refuses both at once")
    q, k, v = operands(dtype)
    mask = None if shape is None else torch.randn(shape).to(dtype)
    for scale in (None, 0.3):
        check(forward, q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
        out, lse = forward(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
        args = (torch.randn_like(out), q, k, v, out, lse, 0.0, causal)
        check(backward, *args, attn_mask=mask, scale=scale)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_query_that_sees_no_key_gives_zero(dtype):
    q, k, v = operands(dtype)
    mask = torch.zeros(3, 7, dtype=dtype)
    mask[1] = -math.inf
    mask[0, 2:] = -math.inf
    check(forward, q, k, v, attn_mask=mask)
    out, lse = forward(q, k, v, attn_mask=mask)
    check(backward, torch.randn_like(out), q, k, v, out, lse, 0.0, False, attn_mask=mask)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_key_heads_may_be_shared(dtype):
    check(forward, *operands(dtype, heads=2), 0.0, True)


def test_shared_heads_gather_their_gradients():
    q, k, v = operands(torch.float64, heads=2)
    out, lse = forward(q, k, v)
    grad = torch.randn_like(out)
    graph, tensors = lower(backward, grad, q, k, v, out, lse, 0.0, False)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wide = [x.repeat_interleave(2, 1) for x in leaves[1:]]
    scores = leaves[0] @ wide[0].mT / math.sqrt(8)
    wanted = torch.autograd.grad((scores.softmax(-1) @ wide[1] * grad).sum(), leaves)
    for got, want in zip(run(graph, tensors), wanted, strict=True):
        torch.testing.assert_close(got, want)


def test_dropout_and_nothing_are_left_to_torch():
    assert isinstance(lower(forward, *operands(torch.float32), 0.5), Reject)
    assert isinstance(lower(forward, *operands(torch.float32, keys=0)), Reject)
