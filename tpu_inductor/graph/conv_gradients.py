"""Which gradients of convolutions torch computes on the CPU, transposed convolutions among them.

By the input, a gradient is a convolution of spread elements; by the weights, one whose windows are
as large as the result that is differentiated. XLA:CPU has a fast path for neither. In milliseconds
of one core of an EPYC 7003, busy; `torch` is that of the rules below, with the way to it and back:

    n   in  size   out  window  stride   by input: XLA   torch   by weights: XLA   torch
    2   64  112     64   3 x 3    2, depthwise     313      15                27      20
    2  672   14    672   5 x 5    2, depthwise      75     2.3               9.7
    2  240   28    240   3 x 3    1, depthwise                                20     7.5
    2  672   14    672   5 x 5    1, depthwise                                31      16
    1   96   56     96   7 x 7    1, depthwise                               4.2      28
    2  512   14    512   3 x 3    2                 38      23                17      26
    2  128   56    128   3 x 3    2                9.7                        21      14
    2  256   14    256   3 x 3    1                                           18      14
    2    3  224     64   7 x 7    2                                           56      13
    2  256   56    512   1 x 1    2                 33      29               8.7      14

With one image XLA sees one channel a group in the gradient by weights too, and is fast. Where the
weights are many or the window is one element, that gradient is the matrix product that XLA makes.
"""

import math
from dataclasses import replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.types import TensorType

DEPTHWISE_WORK = 1 << 20
"""Multiply-adds with one channel a group from which torch is worth two more programs."""

WEIGHTS, WORK = 1 << 19, 100_000_000
"""Weights to turn, and multiply-adds, of any other gradient from which it is."""

WINDOW_SHARE = 4
"""Elements of a window for each place from which it is no window of a model on a small image."""

MOST_WEIGHTS = 1 << 20
"""From which XLA's gradient by weights is as fast, if not one channel a group."""


def choose_torch_gradient(
    attrs: A.Conv, x: TensorType, w: TensorType, out: TensorType
) -> A.Conv | None:
    """`attrs`, which are channels last, as a gradient that torch computes faster, if it is one."""
    if _is_by_input(attrs, w) and _is_worth_input(attrs, w, out):
        why = "a transposed convolution: torch is faster"
        return replace(attrs, method="torch_transposed", why=why)
    if _is_by_weights(attrs, x, w, out) and _is_worth_weights(attrs, x, w, out):
        why = "a gradient by the weights: torch is faster"
        return replace(attrs, method="torch_weight_gradient", why=why)
    return None


def _is_worth_input(attrs: A.Conv, w: TensorType, out: TensorType) -> bool:
    work = out.size * math.prod(w.dims[1:]) // math.prod(attrs.lhs_dilation)
    if attrs.groups == 1:
        return w.size >= WEIGHTS and work >= WORK
    return w.dims[1] == 1 and w.dims[0] == attrs.groups and work >= DEPTHWISE_WORK


def _is_worth_weights(attrs: A.Conv, x: TensorType, w: TensorType, out: TensorType) -> bool:
    window, places = math.prod(w.dims[2:]), math.prod(out.dims[1:-1])
    work = out.size * math.prod(w.dims[1:])
    if attrs.groups == 1:
        is_large = work >= WORK and window > WINDOW_SHARE * places
        return is_large and out.size <= MOST_WEIGHTS and places > 1
    is_depthwise = x.dims[0] == 1 and w.dims[0] == attrs.groups
    return is_depthwise and window > places and w.dims[1] > 1 and work >= DEPTHWISE_WORK


def _is_by_input(attrs: A.Conv, w: TensorType) -> bool:
    """Whether torch's transposed convolution computes it."""
    geometry = zip(attrs.lhs_dilation, attrs.rhs_dilation, attrs.padding, w.dims[2:], strict=True)
    is_spread = any(d != 1 for d in attrs.lhs_dilation) and all(s == 1 for s in attrs.strides)
    return is_spread and all(
        low <= gap * (extent - 1) and 0 <= high - low < max(stride, gap)
        for stride, gap, (low, high), extent in geometry
    )


def _is_by_weights(attrs: A.Conv, x: TensorType, w: TensorType, out: TensorType) -> bool:
    """Whether torch computes it as a gradient by weights of the result's spatial extents.

    Its strides are the dilation of what is differentiated, and the other way round.
    """
    sizes = zip(x.dims[1:-1], w.dims[2:], out.dims[1:-1], strict=True)
    steps = zip(attrs.rhs_dilation, attrs.strides, attrs.padding, strict=True)
    return all(d == 1 for d in attrs.lhs_dilation) and all(
        low >= 0 and (extent + 2 * low - gap * (place - 1) - 1) // stride + 1 == grad
        for (extent, grad, place), (stride, gap, (low, _)) in zip(sizes, steps, strict=True)
    )
