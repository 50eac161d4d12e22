"""Scaled dot product attention as matrix products and a softmax, as if written out.

A query that sees no key gives 0. Dropout is not done here: it runs in torch.
"""

import math

import torch

from tpu_inductor.errors import Reject
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Value, Var
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType
from tpu_inductor.lowerings.matmul import contract
from tpu_inductor.lowerings.reduction import accumulator
from tpu_inductor.lowerings.registry import lowering

aten = torch.ops.aten

_BATCH = ((0, 1), (0, 1))
_QUERIES = 2
_LAST = 3

_LOWEST = {dtype: torch.finfo(TORCH_DTYPE[dtype]).min for dtype in (DType.F32, DType.F64)}

Triple = tuple[Value, Value, Value]


def _scale_of(query: Value, scale: float | None) -> float:
    width = query.type.dims[_LAST]
    return 1 / math.sqrt(width) if scale is None else float(scale)


def _refuse(query: Value, key: Value, dropout_p: float) -> Reject | None:
    if dropout_p != 0:
        return Reject("attention with dropout")
    if 0 in query.type.shape or 0 in key.type.shape:
        return Reject("attention over no elements")
    return None


def _mask_of(b: Builder, query: Value, mask: Value | None) -> Value | None:
    """The mask with four dimensions; an additive one in the type of the query or float32."""
    if mask is None:
        return None
    if mask.type.dtype not in (DType.BOOL, DType.F32):
        mask = b.convert(mask, query.type.dtype)
    return b.reshape(mask, (1,) * (4 - mask.type.rank) + mask.type.shape)


@lowering(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value] | Reject:
    """(batch, heads, length, width) operands; the output and the log-sum-exp of each query."""
    refused = _refuse(query, key, dropout_p)
    if refused is not None:
        return refused
    key, value = (_repeat_heads(b, x, query.type.dims[1]) for x in (key, value))
    scale = _scale_of(query, scale)
    scores = _scores(b, query, key, _mask_of(b, query, attn_mask), scale, is_causal)
    dtype = scores.type.dtype
    peak = b.reduce("reduce_max", scores, (_LAST,), keepdims=True)
    grown = b.op("exp", b.op("sub", scores, b.op("max", peak, b.lit(_LOWEST[dtype], dtype))))
    total = b.reduce("reduce_sum", grown, (_LAST,), keepdims=True)
    # A query that sees no key: 0 / 1, and a log-sum-exp of 0.
    total = b.op("select", b.op("eq", total, b.lit(0, dtype)), b.lit(1, dtype), total)
    weights = b.convert(b.op("div", grown, total), value.type.dtype)
    out = contract(b, weights, value, ((_LAST,), (_QUERIES,)), _BATCH)
    hidden = b.op("eq", peak, b.lit(-math.inf, dtype))
    lse = b.op("add", b.op("log", total), b.op("select", hidden, b.lit(0, dtype), peak))
    return b.convert(out, b.out[0].dtype), b.reshape(lse, b.out[1].shape)


def _repeat_heads(b: Builder, x: Value, heads: int) -> Value:
    """Key or value heads, each repeated for the query heads that share it."""
    batch, own, length, width = x.type.shape
    if own == heads:
        return x
    shared = heads // int(own)
    wide = b.broadcast_to(b.expand_dims(x, (2,)), (batch, own, shared, length, width))
    return b.reshape(wide, (batch, heads, length, width))


def _sum_heads(b: Builder, x: Value, heads: int) -> Value:
    """The gradient of `_repeat_heads`."""
    batch, all_heads, length, width = x.type.shape
    if all_heads == heads:
        return x
    split = b.reshape(x, (batch, heads, int(all_heads) // heads, length, width))
    return b.reduce("reduce_sum", split, (2,))


def _scores(
    b: Builder, query: Value, key: Value, mask: Value | None, scale: float, causal: bool
) -> Var:
    """q k^T * scale + mask in the accumulator's type, -inf where a key is hidden."""
    scores = contract(b, query, key, ((_LAST,), (_LAST,)), _BATCH)
    dtype = scores.type.dtype
    scores = b.op("mul", scores, b.lit(scale, dtype))
    if mask is not None and mask.type.dtype is DType.BOOL:
        scores = b.op("select", mask, scores, b.lit(-math.inf, dtype))
    elif mask is not None:
        scores = b.op("add", scores, b.convert(mask, dtype))
    if causal:
        grid = scores.type.shape[_QUERIES:]
        seen = b.op("le", b.iota(grid, DType.I32, 1), b.iota(grid, DType.I32, 0))
        scores = b.op("select", seen, scores, b.lit(-math.inf, dtype))
    return scores


@lowering(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def flash_attention_backward(
    b: Builder,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> Triple | Reject:
    """p = exp(s - lse); dv = p^T g; ds = p * (g v^T - sum(g * out)); dq = ds k; dk = ds^T q.

    p and ds round to the type of the query, so that half-float products stay half-float.
    """
    refused = _refuse(query, key, dropout_p)
    if refused is not None:
        return refused
    dtype, wide = query.type.dtype, accumulator(query.type.dtype)
    heads, own = query.type.dims[1], key.type.dims[1]
    k, v = (_repeat_heads(b, x, heads) for x in (key, value))
    factor = _scale_of(query, scale)
    scores = _scores(b, query, k, _mask_of(b, query, attn_mask), factor, is_causal)
    lse = b.expand_dims(b.convert(logsumexp, wide), (_LAST,))
    weights = b.op("exp", b.op("sub", scores, lse))
    touched = b.op("mul", b.convert(grad_out, wide), b.convert(out, wide))
    delta = b.reduce("reduce_sum", touched, (_LAST,), keepdims=True)
    slope = contract(b, grad_out, v, ((_LAST,), (_LAST,)), _BATCH)
    inner = b.op("mul", b.op("mul", weights, b.op("sub", slope, delta)), b.lit(factor, wide))
    weights, inner = b.convert(weights, dtype), b.convert(inner, dtype)
    grad_q = contract(b, inner, k, ((_LAST,), (_QUERIES,)), _BATCH)
    grad_k = contract(b, inner, query, ((_QUERIES,), (_QUERIES,)), _BATCH)
    grad_v = contract(b, weights, grad_out, ((_QUERIES,), (_QUERIES,)), _BATCH)
    grad_k, grad_v = (b.convert(_sum_heads(b, x, own), dtype) for x in (grad_k, grad_v))
    return b.convert(grad_q, dtype), grad_k, grad_v
