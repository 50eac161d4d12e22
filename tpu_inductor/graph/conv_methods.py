"""How the CPU computes each convolution: by XLA's library, as a product, or tap by tap.

    library   lax.conv_general_dilated, which needs the weights as (*window, in, out)
    product   a matrix product of the input's windows, copied side by side, with the weights
    rows      the same, with the windows in the order in which the weights lie
    taps      the input, shifted and weighted, summed over the places of the window
    torch     torch's own library, between two programs; the gradients that it computes are
              torch_transposed and torch_weight_gradient, see conv_gradients

What a method costs beyond its multiplications is what it copies: the library turns the weights, a
product copies every window. So few windows are copied and many are not. Measured for XLA:CPU of jax
0.10.2 on one core of an EPYC 7003, in milliseconds; (n, in, size) * (out, window), M windows:

    n   in  size  out  window    M / out   library  product   rows   torch
    1   64   56    64  3 x 3       49        3.3      5.3      9.6     3.2
    1  128   28   128  3 x 3        6.1      4.3      4.8      7.9     3.6
    2  256   14   256  3 x 3        1.5      7.4      6.6      9.7     5.9
    1  256   14   256  3 x 3        0.77     5.4      4.6      5.6     4.4
    2  512    7   512  3 x 3        0.19    15.0      9.5     10.3    11.3
    1  512    7   512  3 x 3        0.10    10.2      6.8      5.7     6.2
    8  512    2   512  3 x 3        0.06   205.7      4.4      3.0     5.6
    2  512    2   512  3 x 3        0.02    57.2      3.4      1.8     2.7
    1 1024   14   256  1 x 1                 2.7      1.4               1.5

With one channel a group there is no product. Times of taps with a loop over the rows of the result:

    n   in  size  window  stride   million multiply-adds   taps   torch
    1   96   56    7 x 7       1                    14.8    1.8     1.1
    2  384   14    7 x 7       1                     7.4    1.9     0.8
    2   64  112    3 x 3       2                     3.6    3.6     0.8
    2  672   14    5 x 5       1                     6.6    1.6     0.7
    2  960    7    5 x 5       1                     2.4    0.7     0.2
    2  240   28    3 x 3       2                     0.8    0.5     0.2

so torch saves what the way to it and back costs, some 0.3 ms, from about a million on. MobileNetV3
as a whole, on a busy machine, takes 1.06 of eager's time without torch for 8 images, 0.69 to 0.84
with it from 2^19, 2^20 or 2^21 on; for one image no choice differs by more than noise. In 16 bits
torch is slower than either on a processor without instructions for them.

Torch packs weights faster than XLA turns them, which tells from half a million weights on, where
the windows are too many to be turned instead; 3 x 3, on a busy machine:

    n   in  size  out   M / out   million multiply-adds   library   rows   torch
    2  128   28   128      12                       231       5.8            5.4
    1  256   14   256      0.77                     116       3.6            2.8
    2  256   14   256      1.5                      231       6.6            5.6
    8  256   14   256      6.1                      925      24.1           20.6
    8  256    8   256      2                        302       9.6   13.0     6.7
    2  512    7   512      0.19                     231      13.5    8.7     8.2
    8  512    4   512      0.25                     302      12.6   11.1     9.5
    8  512    7   512      0.77                     925      31.8   34.8    23.6

The library is not itself where a window is larger than what it is moved over: it then takes an
unblocked loop (205.7 and 57.2 above).
"""

import math
from dataclasses import replace

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.conv_gradients import choose_torch_gradient
from tpu_inductor.graph.types import DType, TensorType

MAX_TAPS = 64
"""More places than this would make the program long."""

MAX_COPIED = 1 << 26
"""Elements of windows to hold at once; larger ones are left to the library."""

PRODUCT_WINDOWS = 2
"""Windows per output channel up to which copying them costs less than the library loses."""

ROWS_CHANNELS = 4
"""Output channels per window from which it costs less to turn the windows than the weights."""


TORCH_WORK = 1 << 20
"""Multiply-adds of a depthwise convolution from which torch is worth two more programs."""

TORCH_WEIGHTS, TORCH_DENSE_WORK = 1 << 19, 100_000_000
"""Weights, and multiply-adds, of any other convolution from which it is."""


TORCH_METHODS = ("torch", "torch_transposed", "torch_weight_gradient")
"""Those that are calls between two programs."""


_MANY_WINDOWS = "many windows for each weight"


def choose_method(
    attrs: A.Conv, x: TensorType, w: TensorType, out: TensorType, may_use_torch: bool
) -> A.Conv:
    """`attrs`, which are channels last, with the method and the reason for it."""
    outputs, _, *window = w.dims
    taps, places = math.prod(window), math.prod(out.dims[1:-1])
    is_symmetric = all(low == high >= 0 for low, high in attrs.padding)
    may_use_torch = may_use_torch and x.dtype is DType.F32
    if may_use_torch and (gradient := choose_torch_gradient(attrs, x, w, out)):
        return gradient
    may_use_torch = may_use_torch and is_symmetric
    if _is_depthwise(attrs, x, w):
        if may_use_torch and taps * out.size >= TORCH_WORK:
            return replace(attrs, method="torch", why="one channel a group: torch is faster")
        if 0 < taps <= MAX_TAPS and out.size:
            return replace(attrs, method="taps", why="one channel a group: no matrix to multiply")
        return replace(attrs, why=f"one channel a group, more than {MAX_TAPS} taps")
    windows = out.dims[0] * places
    if attrs.groups != 1 or not out.size or min(taps, places) > MAX_TAPS:
        return replace(attrs, why=f"groups, or more than {MAX_TAPS} windows and taps")
    if taps > 1 and windows * taps * x.dims[-1] > MAX_COPIED:
        return replace(attrs, why="its windows fill too much memory")
    if taps > 1 and ROWS_CHANNELS * windows <= outputs and taps <= MAX_TAPS:
        return replace(attrs, method="rows", why="more weights than windows: they stay")
    if may_use_torch and _is_heavy(attrs, w, windows):
        return replace(attrs, method="torch", why="many weights and windows: torch is faster")
    why = _reason_for_product(attrs, x, window, windows / outputs)
    return replace(attrs, method="product", why=why) if why else replace(attrs, why=_MANY_WINDOWS)


def _is_depthwise(attrs: A.Conv, x: TensorType, w: TensorType) -> bool:
    is_spread = any(d != 1 for d in attrs.lhs_dilation)
    return not is_spread and w.dims[1] == 1 and attrs.groups == x.dims[-1] == w.dims[0] > 1


def _is_heavy(attrs: A.Conv, w: TensorType, windows: int) -> bool:
    is_dense = attrs.groups == 1 and all(d == 1 for d in attrs.lhs_dilation)
    is_pointwise = math.prod(w.dims[2:]) == 1
    enough = w.size >= TORCH_WEIGHTS and windows * w.size >= TORCH_DENSE_WORK
    return is_dense and enough and not is_pointwise


def _reason_for_product(attrs: A.Conv, x: TensorType, window: list[int], share: float) -> str:
    """Why to copy windows, `share` of them for each output channel; empty where not to."""
    if math.prod(window) == 1:
        return "a window of one element is a matrix product"
    if any(_outgrows(attrs, x, window, i) for i in range(len(window))):
        return "windows larger than what they are moved over"
    return "few windows for each weight" if share <= PRODUCT_WINDOWS else ""


def _outgrows(attrs: A.Conv, x: TensorType, window: list[int], i: int) -> bool:
    return attrs.rhs_dilation[i] * (window[i] - 1) + 1 > x.dims[i + 1] * attrs.lhs_dilation[i]
