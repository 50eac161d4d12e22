"""The spellings for XLA:CPU, against torch and against what every target takes."""

import jax
import jax.numpy as jnp
import pytest
import torch
from jax import lax
from prim_cases import Case
from test_codegen_expr import to_jax, to_torch

from tpu_inductor.codegen.expr import spell
from tpu_inductor.codegen.expr_cpu import spell_for_cpu
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType


def conv(strides, padding, dilation, groups, x, w, lhs_dilation=None):
    ones = (1,) * len(strides)
    attrs = A.Conv(strides, padding, lhs_dilation or ones, dilation, groups, "highest")
    return Case("conv", attrs, (x, w), "depthwise")


def values(dtype, *shape):
    gen = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=gen).to(TORCH_DTYPE[dtype])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.BF16, DType.F16])
@pytest.mark.parametrize(
    ("strides", "padding", "dilation", "size", "window"),
    [
        ((1, 1), ((3, 3), (3, 3)), (1, 1), (9, 8), (7, 7)),
        ((2, 1), ((0, 1), (2, 0)), (1, 2), (7, 9), (3, 2)),
        ((3,), ((-1, 2),), (2,), (12,), (3,)),
        ((1, 2, 1), ((0, 0), (1, 1), (0, 1)), (1, 1, 1), (3, 5, 2), (1, 3, 2)),
    ],
)
def test_depthwise_convolutions_agree_with_torch(dtype, strides, padding, dilation, size, window):
    x, w = values(dtype, 2, 5, *size), values(dtype, 5, 1, *window)
    eqn = conv(strides, padding, dilation, 5, x, w).eqn()
    text = spell_for_cpu(eqn, ["a", "b"])
    assert "conv_general_dilated" not in text
    with jax.enable_x64(True):
        function = eval(f"lambda a, b: {text}", {"jnp": jnp, "lax": lax})
        got = to_torch(jax.jit(function)(to_jax(x), to_jax(w)), dtype)
    flat = [n for pair in reversed(padding) for n in pair]
    padded = torch.nn.functional.pad(x.double(), flat)
    run = getattr(torch.nn.functional, f"conv{len(size)}d")
    want = run(padded, w.double(), None, strides, 0, dilation, 5)
    assert got.shape == want.shape == eqn.out.type.dims
    torch.testing.assert_close(got, want.to(got.dtype))


@pytest.mark.parametrize(
    "case",
    [
        conv((1,), ((0, 0),), (1,), 2, torch.ones(1, 4, 5), torch.ones(4, 2, 3)),
        conv((1,), ((0, 0),), (1,), 4, torch.ones(1, 4, 5), torch.ones(8, 1, 3)),
        conv((1,), ((0, 0),), (1,), 4, torch.ones(1, 4, 99), torch.ones(4, 1, 65)),
        conv((1,), ((0, 0),), (1,), 4, torch.ones(0, 4, 5), torch.ones(4, 1, 3)),
        conv((1,), ((2, 2),), (1,), 4, torch.ones(1, 4, 5), torch.ones(4, 1, 3), (2,)),
    ],
    ids=["few channels a group", "two outputs a channel", "wide", "empty", "transposed"],
)
def test_other_convolutions_are_spelt_as_everywhere(case):
    eqn = case.eqn()
    assert spell_for_cpu(eqn, ["a", "b"]) == spell(eqn, ["a", "b"])
