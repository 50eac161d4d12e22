"""Layers at the widths of real models, as graphs: what a gate of tiles goes over.

layer_graph("up", 1600, BF16)   # gelu(x[1024,1600] @ w.T + bias), 6400 wide
"""

from kernel_graphs import F32, build, dot, mean, tensor

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph, Value, Var
from tpu_inductor.graph.types import DType

WIDTHS = (320, 640, 768, 1024, 1280, 1536, 1600, 2048, 2560, 3072, 4096, 5120, 6400, 11008, 14336)
"""Hidden and intermediate sizes of models that people run, from a UNet's attention to Llama."""

ROWS = 1024
"""Tokens."""


def linear(b: Builder, k: int, n: int, dtype: DType, rows: int = ROWS) -> Var:
    """x @ w.T + bias, accumulated in float32."""
    x, weight = tensor(b, "x", (rows, k), dtype), tensor(b, "weight", (n, k), dtype)
    precision = "highest" if dtype is F32 else "default"
    product = dot(b, x, b.transpose(weight, (1, 0)), precision)
    return b.op("add", product, b.convert(tensor(b, "bias", (n,), dtype), F32))


def square(b: Builder, width: int, dtype: DType) -> Value:
    return b.convert(b.op("max", linear(b, width, width, dtype), b.lit(0, F32)), dtype)


def up(b: Builder, width: int, dtype: DType) -> Value:
    x = linear(b, width, 4 * width, dtype)
    inner = b.op("mul", b.op("add", x, b.op("mul", b.op("mul", x, x), x)), b.lit(0.8, F32))
    gate = b.op("add", b.op("tanh", inner), b.lit(1, F32))
    return b.convert(b.op("mul", x, gate), dtype)


def down(b: Builder, width: int, dtype: DType) -> Value:
    x = linear(b, 4 * width, width, dtype)
    residual = tensor(b, "residual", (ROWS, width), dtype)
    return b.convert(b.op("add", x, b.convert(residual, F32)), dtype)


def layer_norm(b: Builder, width: int, dtype: DType) -> Value:
    x = b.convert(tensor(b, "x", (ROWS, width), dtype), F32)
    weight, bias = (b.convert(tensor(b, n, (width,), dtype), F32) for n in ("weight", "bias"))
    centred = b.op("sub", x, mean(b, x))
    scale = b.op("rsqrt", b.op("add", mean(b, b.op("mul", centred, centred)), b.lit(1e-5, F32)))
    normed = b.op("mul", b.op("mul", centred, scale), weight)
    return b.convert(b.op("add", normed, bias), dtype)


def gradients(b: Builder, width: int, dtype: DType) -> list[Value]:
    """The gradients of a norm's weight and bias: vectors that the kernel writes."""
    grad = b.convert(tensor(b, "grad", (ROWS, width), dtype), F32)
    normed = b.convert(tensor(b, "normed", (ROWS, width), dtype), F32)
    sums = (b.reduce("reduce_sum", v, (0,)) for v in (grad, b.op("mul", grad, normed)))
    return [b.convert(s, dtype) for s in sums]


def masked_bias(b: Builder, width: int, dtype: DType) -> Value:
    """Vectors of masks and of integers beside a bias."""
    x, bias = tensor(b, "x", (ROWS, width), dtype), tensor(b, "bias", (width,), dtype)
    mask, count = tensor(b, "mask", (width,), DType.BOOL), tensor(b, "count", (width,), DType.I32)
    wide = b.op("add", b.convert(x, F32), b.convert(bias, F32))
    wide = b.op("mul", wide, b.convert(count, F32))
    return b.convert(b.op("select", mask, wide, b.lit(0, F32)), dtype)


LAYERS = {f.__name__: f for f in (square, up, down, layer_norm, gradients, masked_bias)}


def layer_graph(name: str, width: int, dtype: DType) -> Graph:
    return build(LAYERS[name], width, dtype)
