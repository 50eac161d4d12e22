"""Which gradients of convolutions torch computes, seen as the convolutions that they are."""

import pytest

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.conv_gradients import choose_torch_gradient
from tpu_inductor.graph.type_rules import conv
from tpu_inductor.graph.types import DType, TensorType


def method(x, w, attrs):
    x, w = TensorType(x, DType.F32), TensorType(w, DType.F32)
    (out,) = conv(attrs, x, w)
    chosen = choose_torch_gradient(attrs, x, w, out)
    assert chosen is None or chosen.why
    return chosen and chosen.method


def by_input(n, size, channels, outputs, window, stride, groups=1, more=0):
    """Of a convolution of `channels` with `outputs`, padded to keep its size but for the stride."""
    reach = window // 2
    edges = ((reach, reach + more),) * 2
    attrs = A.Conv((1, 1), edges, (stride,) * 2, (1, 1), groups, "highest", True)
    return method((n, size, size, outputs), (channels, outputs // groups, window, window), attrs)


def by_weights(n, size, channels, outputs, window, stride, groups=1, lack=0):
    """Of the same convolution of images of `size`."""
    reach = window // 2
    grad = (size + 2 * reach - window) // stride + 1 - lack
    edges = ((reach, (grad - 1) * stride + window - size - reach),) * 2
    attrs = A.Conv((1, 1), edges, (1, 1), (stride,) * 2, groups, "highest", True)
    return method((channels // groups, size, size, groups * n), (outputs, n, grad, grad), attrs)


def test_a_large_gradient_by_a_strided_input_runs_in_torch():
    assert by_input(2, 56, 64, 64, 3, 2, 64, more=1) == "torch_transposed"
    assert by_input(2, 7, 512, 512, 3, 2, more=1) == "torch_transposed"


@pytest.mark.parametrize("more", [-1, 2])
def test_edges_that_no_transposed_convolution_has_are_no_gradient(more):
    assert by_input(2, 56, 64, 64, 3, 2, 64, more=more) is None


def test_a_gradient_by_an_input_that_is_small_or_unstrided_does_not():
    assert by_input(2, 56, 64, 64, 3, 1, 64) is None
    assert by_input(1, 4, 64, 64, 3, 2, 64, more=1) is None
    assert by_input(2, 28, 128, 128, 3, 2, more=1) is None
    assert by_input(2, 56, 64, 64, 3, 2, 32, more=1) is None


def test_a_large_gradient_by_weights_runs_in_torch():
    assert by_weights(2, 28, 240, 240, 3, 1, 240) == "torch_weight_gradient"
    assert by_weights(2, 14, 672, 672, 5, 2, 672) == "torch_weight_gradient"
    assert by_weights(2, 224, 3, 64, 7, 2) == "torch_weight_gradient"
    assert by_weights(2, 14, 256, 256, 3, 1) == "torch_weight_gradient"


def test_what_is_a_matrix_product_or_small_does_not():
    assert by_weights(1, 56, 96, 96, 7, 1, 96) is None
    assert by_weights(2, 8, 64, 64, 3, 1, 64) is None
    assert by_weights(2, 14, 256, 1024, 1, 1) is None
    assert by_weights(2, 14, 512, 512, 3, 2) is None
    assert by_weights(2, 14, 64, 64, 3, 1) is None
    assert by_weights(2, 28, 240, 240, 3, 1, 120) is None


def test_a_gradient_that_lacks_positions_is_none_that_torch_takes():
    assert by_weights(2, 28, 240, 240, 3, 1, 240, lack=1) is None


def test_a_heavy_convolution_of_small_images_is_no_gradient():
    attrs = A.Conv((1, 1), ((1, 1),) * 2, (1, 1), (1, 1), 1, "highest", True)
    assert method((32, 2, 2, 512), (512, 512, 3, 3), attrs) is None
