"""Softmax, norms, activations and other work that reads a row or an element and writes one."""

import math

import torch
import torch.nn.functional as F
from by_hand import rows as by_hand

from workloads.workload import Spec, Workload

F32 = torch.float32
BF16 = torch.bfloat16

ELEMENTS = 1 << 25
"""Elements of a softmax: large enough that the first copy does not decide."""


def _softmax(columns: int, dtype: torch.dtype) -> list[Workload]:
    spec = Spec((ELEMENTS // columns, columns), dtype)
    size = f"{columns // 1024}k_{'bf16' if dtype is BF16 else 'f32'}"
    return [
        Workload(
            f"softmax_{size}",
            "softmax",
            lambda x: x.softmax(-1),
            (by_hand.softmax, by_hand.softmax_single_pass),
            (spec,),
        ),
        Workload(
            f"log_softmax_{size}",
            "softmax",
            lambda x: x.log_softmax(-1),
            (by_hand.log_softmax, by_hand.log_softmax_single_pass),
            (spec,),
        ),
    ]


def _layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


def _rms_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    h = x + r
    wide = h.float()
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return w * scaled.to(h.dtype), h


def _top_p(logits: torch.Tensor) -> torch.Tensor:
    values, order = logits.sort(-1, descending=True)
    probabilities = values.softmax(-1)
    dropped = probabilities.cumsum(-1) - probabilities > 0.9
    kept = values.masked_fill(dropped, -math.inf).softmax(-1)
    return torch.zeros_like(logits).scatter(-1, order, kept)


def _sample_chain(logits: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Repetition penalty, temperature, min-p and renormalisation."""
    penalised = torch.where(seen, torch.where(logits > 0, logits / 1.2, logits * 1.2), logits)
    probabilities = (penalised / 0.7).softmax(-1)
    floor = 0.05 * probabilities.amax(-1, keepdim=True)
    kept = torch.where(probabilities < floor, 0.0, probabilities)
    return kept / kept.sum(-1, keepdim=True)


def _weight_gradients(dy: torch.Tensor, scaled: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide = dy.float()
    return (wide * scaled.float()).sum(0), wide.sum(0)


X = Spec((8192, 4096))
W = Spec((4096,))

ROWS = [
    *(w for c in (1024, 4096, 32768, 131072, 262144) for w in _softmax(c, F32)),
    *_softmax(4096, BF16),
    *_softmax(32768, BF16),
    Workload(
        "layer_norm",
        "norm",
        _layer_norm,
        (by_hand.layer_norm, by_hand.layer_norm_single_pass),
        (X, W, W),
    ),
    Workload(
        "rms_norm_residual",
        "norm",
        _rms_norm,
        (by_hand.rms_norm, by_hand.rms_norm_dot),
        (X, X, W),
    ),
    Workload(
        "bias_gelu",
        "activation",
        lambda x, b: F.gelu(x + b, approximate="tanh"),
        (by_hand.bias_gelu,),
        (Spec((8192, 16384)), Spec((16384,))),
    ),
    Workload(
        "geglu",
        "activation",
        lambda g, u: F.gelu(g, approximate="tanh") * u,
        (by_hand.geglu,),
        (Spec((8192, 11008)),) * 2,
    ),
    Workload(
        "swiglu",
        "activation",
        lambda g, u: F.silu(g) * u,
        (by_hand.swiglu,),
        (Spec((8192, 11008)),) * 2,
    ),
    Workload(
        "column_sum",
        "reduction",
        lambda x: x.sum(0),
        (by_hand.column_sum,),
        (Spec((16384, 4096), F32),),
    ),
    Workload(
        "norm_weight_gradients",
        "norm",
        _weight_gradients,
        (by_hand.weight_gradients,),
        (X, X),
    ),
    Workload(
        "argmax",
        "reduction",
        lambda x: x.argmax(-1),
        (by_hand.argmax,),
        (Spec((1024, 32000), F32),),
    ),
    Workload("top_p", "sampling", _top_p, (by_hand.top_p,), (Spec((16, 4096), F32),)),
    Workload(
        "sample_chain",
        "sampling",
        _sample_chain,
        (by_hand.sample_chain, by_hand.sample_chain_unnormalised),
        (Spec((1024, 32000), F32), Spec((1024, 32000), torch.bool)),
    ),
]
