"""The spellings for XLA:CPU, against torch in float64 and against what every target takes."""

from dataclasses import replace

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

FLOATS = [DType.F32, DType.F64, DType.BF16, DType.F16]

# strides, padding, spread of the input, dilation, input, window
GEOMETRIES = [
    ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), (9, 8), (3, 3)),
    ((2, 1), ((0, 1), (2, 0)), (1, 1), (1, 2), (7, 9), (3, 2)),
    ((3,), ((-1, 2),), (1,), (2,), (12,), (3,)),
    ((1, 2, 1), ((0, 0), (1, 1), (0, 1)), (1, 1, 1), (1, 1, 1), (3, 5, 2), (1, 3, 2)),
    ((2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1), (5, 4), (1, 1)),
    ((1, 1), ((1, 0), (0, 0)), (1, 1), (1, 1), (5, 4), (1, 1)),
    ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), (2, 2), (3, 3)),
]
SPREAD = ((1, 2), ((2, 1), (1, 1)), (2, 3), (1, 1), (3, 4), (3, 2))
WIDE = ((2, 1), ((1, 1), (0, 1)), (1, 1), (1, 2), (13, 21), (12, 10))


def values(dtype, *shape):
    gen = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=gen).to(TORCH_DTYPE[dtype])


def conv(method, geometry, groups, x, w):
    strides, padding, spread, dilation, _, _ = geometry
    attrs = A.Conv(strides, padding, spread, dilation, groups, "highest", True, method)
    return Case("conv", attrs, (x, w), method).eqn()


def compute(eqn, x, w):
    with jax.enable_x64(True):
        function = eval(f"lambda a, b: {spell_for_cpu(eqn, ['a', 'b'])}", {"jnp": jnp, "lax": lax})
        return to_torch(jax.jit(function)(to_jax(x), to_jax(w)), eqn.out.type.dtype)


def expect(geometry, groups, x, w):
    """By torch in float64, channels first, over an input that was spread and padded by hand."""
    strides, padding, spread, dilation, size, _ = geometry
    x, w = x.double().movedim(-1, 1), w.double()
    wide = x.new_zeros(*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(size, spread, strict=True)))
    wide[(..., *(slice(None, None, s) for s in spread))] = x
    padded = torch.nn.functional.pad(wide, [n for pair in reversed(padding) for n in pair])
    run = getattr(torch.nn.functional, f"conv{len(size)}d")
    return run(padded, w, None, strides, 0, dilation, groups).movedim(1, -1)


def check(method, geometry, groups, dtype, weights):
    x, w = values(dtype, 2, *geometry[4], 6), values(dtype, *weights, *geometry[5])
    eqn = conv(method, geometry, groups, x, w)
    got, want = compute(eqn, x, w), expect(geometry, groups, x, w)
    assert got.shape == want.shape == eqn.out.type.dims
    torch.testing.assert_close(got, want.to(got.dtype))
    return spell_for_cpu(eqn, ["a", "b"])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_depthwise_convolutions_are_sums_of_taps(dtype, geometry):
    text = check("taps", geometry, 6, dtype, (6, 1))
    assert "conv_general_dilated" not in text
    assert "dot_general" not in text


@pytest.mark.parametrize("method", ["product", "rows"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("geometry", [*GEOMETRIES, SPREAD])
def test_windows_times_weights_are_a_convolution(method, dtype, geometry):
    text = check(method, geometry, 1, dtype, (5, 6))
    assert "conv_general_dilated" not in text
    assert "dot_general" in text


def test_with_more_taps_than_windows_the_program_has_one_slice_a_window():
    text = check("product", WIDE, 1, DType.F64, (5, 6))
    assert "for i0 in range(2) for i1 in range(4)" in text


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("groups", "weights"), [(1, (5, 6)), (2, (4, 3)), (6, (12, 1))])
@pytest.mark.parametrize("geometry", [GEOMETRIES[1], SPREAD])
def test_the_library_takes_channels_last(dtype, groups, weights, geometry):
    assert "dimension_numbers=" in check("library", geometry, groups, dtype, weights)


def test_what_has_no_method_of_the_cpu_is_spelt_as_everywhere():
    x, w = values(DType.F32, 1, 9, 8, 6), values(DType.F32, 5, 6, 3, 3)
    eqn = conv("library", GEOMETRIES[0], 1, x, w)
    assert spell_for_cpu(eqn, ["a", "b"]) == spell(eqn, ["a", "b"])
    first = A.Conv((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, "highest")
    eqn = Case("conv", first, (x.movedim(-1, 1), w), "first").eqn()
    assert "dimension_numbers" not in spell(eqn, ["a", "b"])
    turned = replace(eqn, attrs=replace(first, why="a reason"))
    assert spell_for_cpu(turned, ["a", "b"]) == spell(eqn, ["a", "b"])
