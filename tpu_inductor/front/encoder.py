"""Takes apart the operators that torch's transformer layers call instead of their own code.

`TransformerEncoderLayer` and `MultiheadAttention` do so in inference, on the CPU alone. Spelled in
Dynamo's graph as the layers themselves would, a model compiles to the same on every device.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import GraphModule


def attend_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """`_native_multi_head_attention` of (batch, length, width); one with a mask stays whole."""
    if mask is not None or query.is_nested:
        whole = query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias
        return _ATTEND_HEADS(*whole, mask, need_weights, average_attn_weights, mask_type)
    by_row = {id(x): x.transpose(1, 0) for x in (query, key, value)}
    out, weights = F.multi_head_attention_forward(
        by_row[id(query)],
        by_row[id(key)],
        by_row[id(value)],
        embed_dim,
        num_head,
        qkv_weight,
        qkv_bias,
        None,
        None,
        False,
        0.0,
        proj_weight,
        proj_bias,
        training=False,
        need_weights=need_weights,
        average_attn_weights=average_attn_weights,
    )
    return out.transpose(1, 0), weights


def encode(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *weights: Any,
    **mask: Any,
) -> Tensor:
    """`_transformer_encoder_layer_fwd` of (batch, length, width); one with a mask stays whole.

    `weights` are those of the norms and of the linear layers; a mask and its type may follow them.
    """
    projections = qkv_weight, qkv_bias, proj_weight, proj_bias
    layers, masks = weights[:8], (*weights[8:], *mask.values())
    if src.is_nested or any(m is not None for m in masks):
        sizes = use_gelu, norm_first, eps
        return _ENCODE(src, embed_dim, num_heads, *projections, *sizes, *weights, **mask)
    first, second, up, down = zip(layers[::2], layers[1::2], strict=True)

    def attend(x: Tensor) -> Tensor:
        return attend_heads(x, x, x, embed_dim, num_heads, *projections, need_weights=False)[0]

    def feed(x: Tensor) -> Tensor:
        hidden = F.linear(x, *up)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), *down)

    def normalize(x: Tensor, affine: tuple[Tensor, Tensor]) -> Tensor:
        return F.layer_norm(x, (embed_dim,), *affine, eps)

    if norm_first:
        x = src + attend(normalize(src, first))
        return x + feed(normalize(x, second))
    x = normalize(src + attend(src), first)
    return normalize(x + feed(x), second)


_ATTEND_HEADS = torch._native_multi_head_attention
_ENCODE = torch._transformer_encoder_layer_fwd
_SPELLED = {_ATTEND_HEADS: attend_heads, _ENCODE: encode}


def spell_layers(gm: GraphModule) -> None:
    """Has `gm`, and the graphs that it calls, do what the operators do in their place."""
    for module in gm.modules():
        if not isinstance(module, GraphModule):
            continue
        found = [
            n for op in _SPELLED for n in module.graph.find_nodes(op="call_function", target=op)
        ]
        for node in found:
            node.target = _SPELLED[node.target]
        if found:
            module.recompile()
