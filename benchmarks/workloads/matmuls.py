"""Matmuls, alone and with what follows them."""

import torch
import torch.nn.functional as F
from by_hand import matmuls as by_hand

from workloads.workload import Spec, Workload

BF16, F32, I8 = torch.bfloat16, torch.float32, torch.int8


def _scaled_int8(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (torch._int_mm(a, b).float() * scale).to(BF16)


def _bias_gelu_residual(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, r: torch.Tensor
) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b), approximate="tanh") + r


def _qkv(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    heads = F.linear(x, w, b).view(*x.shape[:2], 3, 32, 128)
    q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
    return q.contiguous(), k.contiguous(), v.contiguous()


def _qkv_separate(
    x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    b, t, _ = x.shape
    return tuple(F.linear(x, w).view(b, t, -1, 128).transpose(1, 2) for w in (q, k, v))


def _swiglu_mlp(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d)


def _geglu_mlp(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return F.linear(F.gelu(F.linear(x, g), approximate="tanh") * F.linear(x, u), d)


def _plain(name: str, m: int, k: int, n: int, dtype: torch.dtype = BF16) -> Workload:
    written = by_hand.matmul_f32 if dtype is F32 else by_hand.matmul
    return Workload(name, torch.matmul, written, (Spec((m, k), dtype), Spec((k, n), dtype)))


_MLP = (Spec((2048, 4096)), Spec((11008, 4096)), Spec((11008, 4096)), Spec((4096, 11008)))

MATMULS = [
    _plain("matmul_square_bf16", 4096, 4096, 4096),
    _plain("matmul_square_f32", 2048, 2048, 2048, F32),
    _plain("matmul_skinny_bf16", 16, 4096, 16384),
    _plain("matmul_ragged_bf16", 1000, 1300, 2500),
    Workload(
        "matmul_int8",
        torch._int_mm,
        by_hand.matmul_int8,
        (Spec((4096, 4096), I8), Spec((4096, 4096), I8)),
    ),
    Workload(
        "matmul_int8_scaled",
        _scaled_int8,
        by_hand.matmul_int8_scaled,
        (Spec((4096, 4096), I8), Spec((4096, 4096), I8), Spec((4096,), F32)),
    ),
    Workload(
        "matmul_bias_gelu_residual",
        _bias_gelu_residual,
        by_hand.bias_gelu_residual,
        (Spec((4096, 4096)), Spec((4096, 4096)), Spec((4096,)), Spec((4096, 4096))),
    ),
    Workload(
        "qkv_fused",
        _qkv,
        by_hand.qkv_fused,
        (Spec((2, 2048, 4096)), Spec((12288, 4096)), Spec((12288,))),
    ),
    Workload(
        "qkv_separate",
        _qkv_separate,
        by_hand.qkv_separate,
        (Spec((2, 2048, 4096)), Spec((4096, 4096)), Spec((1024, 4096)), Spec((1024, 4096))),
    ),
    Workload("swiglu_mlp", _swiglu_mlp, by_hand.swiglu_mlp, _MLP),
    Workload("geglu_mlp", _geglu_mlp, by_hand.geglu_mlp, _MLP),
]
