"""Keeps attention whole on the meta device, as torch keeps it on the CPU.

`scaled_dot_product_attention` takes itself apart before AOTAutograd sees it: on the CPU to one
fused operator, on the meta device to a softmax between two matmuls. What a model compiles to must
not depend on that, so the call in Dynamo's graph is replaced by one that chooses as for the CPU.
"""

import math
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

_ATTEND = torch.nn.functional.scaled_dot_product_attention
_ATTEND_HEADS = torch.nn.functional.multi_head_attention_forward
_FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def capture_attention(gm: GraphModule) -> GraphModule:
    """`gm` with every attention in it, and in the graphs that it calls, by `attend`."""
    for module in gm.modules():
        if isinstance(module, GraphModule):
            found = [
                _replace(module, _ATTEND, attend),
                _replace(module, _ATTEND_HEADS, attend_heads),
            ]
            if any(found):
                module.recompile()
    return gm


def _replace(module: GraphModule, function: Any, by: Any) -> bool:
    """Whether `module` called `function`; it calls `by` instead."""
    nodes = module.graph.find_nodes(op="call_function", target=function)
    for node in nodes:
        node.target = by
    return bool(nodes)


def attend_heads(*args: Any, **kwargs: Any) -> Any:
    """`multi_head_attention_forward`, which Dynamo leaves whole, with `attend` inside it."""
    # It also hands itself over, to a mode that watches calls as tracing does.
    changed = {_ATTEND.__name__: attend, _ATTEND_HEADS.__name__: attend_heads}
    names = {**_ATTEND_HEADS.__globals__, **changed}
    bound = FunctionType(_ATTEND_HEADS.__code__, names, argdefs=_ATTEND_HEADS.__defaults__)
    return bound(*args, **kwargs)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention`, by one operator also on the meta device."""
    is_free = dropout_p == 0.0 and not (is_causal and attn_mask is not None)
    tensors_fit = query.is_meta and _are_fused(query, key, value, enable_gqa)
    if not (is_free and tensors_fit and _is_fused_mask(attn_mask)):
        return _ATTEND(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )
    bias = None if attn_mask is None else _as_bias(attn_mask, query)
    out, _ = _FUSED(query, key, value, 0.0, is_causal, attn_mask=bias, scale=scale)
    return out


def _are_fused(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> bool:
    """Torch's rule for its fused operator on the CPU (`use_flash_attention_cpp`)."""
    tensors = (query, key, value)
    if not torch.backends.cuda.flash_sdp_enabled() or any(x.is_nested for x in tensors):
        return False
    if any(x.dim() != 4 or x.dtype not in _FLOATS or x.stride(-1) != 1 for x in tensors):
        return False
    if len({x.dtype for x in tensors}) > 1 or any(0 in x.shape for x in tensors):
        return False
    batches, heads, _, widths = zip(*(x.shape for x in tensors), strict=True)
    shares = enable_gqa and heads[1] == heads[2] and heads[0] % heads[1] == 0
    return _are_equal(batches) and _are_equal(widths) and (shares or _are_equal(heads))


def _are_equal(extents: tuple[int, ...]) -> bool:
    return all(n == extents[0] for n in extents)


def _is_fused_mask(mask: Tensor | None) -> bool:
    """The operator has no gradient for a mask."""
    return mask is None or (mask.dim() in (2, 4) and not mask.requires_grad)


def _as_bias(mask: Tensor, query: Tensor) -> Tensor:
    """A mask of booleans as what is added to the scores, spelled as torch does."""
    if mask.dtype is not torch.bool:
        return mask
    hidden = torch.scalar_tensor(-math.inf, dtype=query.dtype, device=mask.device)
    seen = torch.scalar_tensor(0.0, dtype=query.dtype, device=mask.device)
    return torch.where(mask, seen, hidden)
