"""Which method the CPU computes a convolution by, and why."""

import pytest

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.conv_methods import MAX_COPIED, choose_method
from tpu_inductor.graph.type_rules import conv
from tpu_inductor.graph.types import DType, TensorType


def choose(x, w, stride=1, padding=0, groups=1, dtype=DType.F32, spread=1, may_use_torch=True):
    rank = len(x) - 2
    edges = (padding if isinstance(padding, tuple) else (padding, padding),) * rank
    attrs = A.Conv((stride,) * rank, edges, (spread,) * rank, (1,) * rank, groups, "highest", True)
    x_type, w_type = TensorType(x, dtype), TensorType(w, dtype)
    (out,) = conv(attrs, x_type, w_type)
    chosen = choose_method(attrs, x_type, w_type, out, may_use_torch)
    assert chosen.why
    return chosen.method


def test_many_windows_for_each_weight_go_to_the_library():
    assert choose((1, 56, 56, 64), (64, 64, 3, 3), padding=1) == "library"
    assert choose((1, 224, 224, 3), (64, 3, 7, 7), stride=2, padding=3) == "library"


def test_few_windows_for_each_weight_are_copied():
    few = (1, 14, 14, 256), (256, 256, 3, 3)
    assert choose(*few, padding=1, may_use_torch=False) == "product"
    assert choose((2, 8, 8, 128), (128, 128, 3, 3), padding=1) == "product"


def test_many_weights_and_windows_run_in_torch_where_they_may():
    x, weights = (2, 14, 14, 256), (256, 256, 3, 3)
    assert choose(x, weights, padding=1) == "torch"
    assert choose(x, (512, 256, 3, 3), padding=1, stride=2) == "rows"
    assert choose((8, *x[1:]), (512, 256, 3, 3), padding=1, stride=2) == "torch"
    assert choose(x, weights, padding=1, may_use_torch=False) == "product"
    assert choose(x, weights, padding=(1, 2)) == "product"
    assert choose(x, weights, padding=1, spread=2) == "torch_transposed"
    assert choose(x, weights, padding=1, spread=2, may_use_torch=False) == "library"
    assert choose(x, weights, padding=1, spread=2, dtype=DType.F64) == "library"
    assert choose(x, weights, padding=1, dtype=DType.BF16) == "product"
    assert choose((1, 7, 7, 256), weights, padding=1) == "rows"
    assert choose((2, 56, 56, 128), (128, 128, 3, 3), padding=1) == "library"
    assert choose((8, 28, 28, 512), (1024, 512, 1, 1)) == "product"


def test_where_weights_are_more_than_windows_the_windows_are_turned():
    assert choose((1, 7, 7, 512), (512, 512, 3, 3), padding=1) == "rows"
    assert choose((2, 7, 7, 512), (512, 512, 3, 3), padding=1) == "rows"
    assert choose((8, 2, 2, 512), (512, 512, 3, 3), padding=1) == "rows"


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.BF16, DType.F16])
def test_a_window_of_one_element_is_a_matrix_product(dtype):
    assert choose((8, 56, 56, 64), (256, 64, 1, 1), dtype=dtype) == "product"
    assert choose((8, 57, 57, 64), (64, 64, 1, 1), stride=2, padding=1, dtype=dtype) == "product"


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_window_larger_than_what_it_moves_over_never_meets_the_library(dtype):
    # Many windows for each weight: 4096 for 8 channels.
    assert choose((1024, 2, 2, 8), (8, 8, 3, 3), padding=1, dtype=dtype) == "product"
    assert choose((1024, 2, 9, 8), (8, 8, 3, 3), padding=1, dtype=dtype) == "product"
    assert choose((1024, 3, 3, 8), (8, 8, 3, 3), padding=1, dtype=dtype) == "library"
    assert choose((1024, 2, 2, 8), (8, 8, 3, 3), padding=2, spread=2, dtype=dtype) == "library"


def test_windows_that_fill_the_memory_go_to_the_library():
    n = MAX_COPIED // (9 * 512) + 1
    wide = (1 << 15, 512, 3, 3)
    assert choose((n, 1, 1, 512), wide, padding=1, may_use_torch=False) == "library"
    assert choose((n - 1, 1, 1, 512), wide, padding=1, may_use_torch=False) == "product"


def test_long_programs_and_groups_go_to_the_library():
    assert choose((1, 20, 20, 8), (512, 8, 9, 9)) == "library"
    assert choose((1, 12, 12, 8), (512, 8, 9, 9)) == "product"
    assert choose((1, 8, 8, 8), (8, 4, 3, 3), groups=2) == "library"


def test_large_depthwise_convolutions_run_in_torch_where_they_may():
    large, weights = (1, 56, 56, 96), (96, 1, 7, 7)
    assert choose(large, weights, padding=3, groups=96) == "torch"
    assert choose(large, weights, padding=3, groups=96, may_use_torch=False) == "taps"
    assert choose(large, weights, padding=(3, 2), groups=96) == "taps"
    assert choose(large, weights, padding=(-1, -1), groups=96) == "taps"
    assert choose(large, weights, padding=3, groups=96, dtype=DType.BF16) == "taps"
    assert choose((1, 8, 8, 96), weights, padding=3, groups=96) == "taps"
    assert (
        choose((1, 8, 8, 96), (96, 1, 9, 9), groups=96, padding=4, may_use_torch=False) == "library"
    )


def test_spread_or_multiplied_channels_are_not_depthwise():
    assert choose((1, 8, 8, 6), (6, 1, 3, 3), groups=6, spread=2) == "library"
    assert choose((1, 8, 8, 6), (12, 1, 3, 3), groups=6) == "library"
