"""Parts of a language model: embedding, loss, optimiser and a whole block."""

import torch
import torch.nn.functional as F
from by_hand import models as by_hand
from by_hand.matmuls import HEAD

from workloads.workload import Spec, Workload

BF16, F32, I64 = torch.bfloat16, torch.float32, torch.int64


def _embedding_norm(ids: torch.Tensor, table: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(F.embedding(ids, table), w.shape, w, 1e-6)


_LOSSES = (
    by_hand.cross_entropy,
    by_hand.cross_entropy_pick,
    by_hand.cross_entropy_single_pass,
)
_LOSSES_AND_GRADIENTS = (
    by_hand.cross_entropy_grad,
    by_hand.cross_entropy_pick_grad,
    by_hand.cross_entropy_single_pass_grad,
)


def _cross_entropy(vocabulary: int, tokens: int) -> list[Workload]:
    specs = (Spec((tokens, vocabulary), F32), Spec((tokens,), I64))
    size = f"{vocabulary // 1000}k"
    return [
        Workload(f"cross_entropy_{size}", "cross entropy", F.cross_entropy, _LOSSES, specs),
        Workload(
            f"cross_entropy_{size}_grad",
            "cross entropy",
            torch.func.grad_and_value(F.cross_entropy),
            _LOSSES_AND_GRADIENTS,
            specs,
        ),
    ]


def _adamw(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One step over (parameter, gradient, first and second moment) of every matrix."""
    out: list[torch.Tensor] = []
    for p, g, m, v in zip(*(tensors[i::4] for i in range(4)), strict=True):
        m = torch.lerp(m, g, 0.1)
        v = v * 0.999 + g * g * 0.001
        update = (m / 0.1) / ((v / 0.001).sqrt() + 1e-8)
        out += [p * (1 - 1e-5) - 1e-3 * update, m, v]
    return tuple(out)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def _llama_block(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *weights: torch.Tensor,
) -> torch.Tensor:
    norm1, q, k, v, o, norm2, gate, up, down = weights
    h = F.rms_norm(x, norm1.shape, norm1, 1e-6)
    heads = [F.linear(h, w).view(*x.shape[:2], -1, HEAD).transpose(1, 2) for w in (q, k, v)]
    mixed = F.scaled_dot_product_attention(
        _rotate(heads[0], cos, sin), _rotate(heads[1], cos, sin), heads[2], is_causal=True
    )
    x = x + F.linear(mixed.transpose(1, 2).flatten(2), o)
    h = F.rms_norm(x, norm2.shape, norm2, 1e-6)
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


SQUARE = Spec((4096, 4096))
NORM = Spec((4096,))
WIDE = Spec((11008, 4096))
TURN = Spec((2048, HEAD))

MODELS = [
    Workload(
        "embedding_norm",
        "embedding",
        _embedding_norm,
        (by_hand.embedding_norm,),
        (Spec((8192,), I64), Spec((32000, 4096)), NORM),
    ),
    *_cross_entropy(32000, 4096),
    *_cross_entropy(128000, 1024),
    Workload(
        "adamw_100m",
        "optimiser",
        _adamw,
        (by_hand.adamw,),
        (Spec((4096, 4096), F32),) * 24,
    ),
    Workload(
        "llama_block",
        "transformer block",
        _llama_block,
        (by_hand.llama_block, by_hand.llama_block_flash),
        (
            Spec((1, 2048, 4096)),
            TURN,
            TURN,
            NORM,
            *(SQUARE,) * 4,
            NORM,
            WIDE,
            WIDE,
            Spec((4096, 11008)),
        ),
    ),
]
