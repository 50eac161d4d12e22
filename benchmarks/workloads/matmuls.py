"""Matmuls, alone and with what follows them."""

import torch
import torch.nn.functional as F
from by_hand import matmuls as by_hand
from by_hand.matmuls import HEAD

from workloads.workload import Spec, Workload

BF16, F32, I8 = torch.bfloat16, torch.float32, torch.int8


def _scaled_int8(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (torch._int_mm(a, b).float() * scale).to(BF16)


def _bias_gelu_residual(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, r: torch.Tensor
) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b), approximate="tanh") + r


def _qkv(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    heads = F.linear(x, w, b).view(*x.shape[:2], 3, -1, HEAD)
    q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
    return q.contiguous(), k.contiguous(), v.contiguous()


def _qkv_separate(
    x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    b, t, _ = x.shape
    return tuple(F.linear(x, w).view(b, t, -1, HEAD).transpose(1, 2) for w in (q, k, v))


def _swiglu_mlp(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d)


def _geglu_mlp(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    return F.linear(F.gelu(F.linear(x, g), approximate="tanh") * F.linear(x, u), d)


def _plain(name: str, m: int, k: int, n: int, dtype: torch.dtype = BF16) -> Workload:
    written = by_hand.matmul_f32 if dtype is F32 else by_hand.matmul
    specs = (Spec((m, k), dtype), Spec((k, n), dtype))
    return Workload(name, "matmul", torch.matmul, (written,), specs)


_MLP = (Spec((2048, 4096)), Spec((11008, 4096)), Spec((11008, 4096)), Spec((4096, 11008)))

MATMULS = [
    _plain("matmul_square_bf16", 4096, 4096, 4096),
    _plain("matmul_square_f32", 2048, 2048, 2048, F32),
    _plain("matmul_skinny_bf16", 16, 4096, 16384),
    _plain("matmul_ragged_bf16", 1000, 1300, 2500),
    Workload(
        "matmul_int8",
        "matmul",
        torch._int_mm,
        (by_hand.matmul_int8,),
        (Spec((4096, 4096), I8), Spec((4096, 4096), I8)),
    ),
    Workload(
        "matmul_int8_scaled",
        "matmul",
        _scaled_int8,
        (by_hand.matmul_int8_scaled,),
        (Spec((4096, 4096), I8), Spec((4096, 4096), I8), Spec((4096,), F32)),
    ),
    Workload(
        "matmul_bias_gelu_residual",
        "matmul",
        _bias_gelu_residual,
        (by_hand.bias_gelu_residual, by_hand.bias_gelu_residual_wide),
        (Spec((4096, 4096)), Spec((4096, 4096)), Spec((4096,)), Spec((4096, 4096))),
    ),
    Workload(
        "qkv_fused",
        "qkv",
        _qkv,
        (by_hand.qkv_fused, by_hand.qkv_fused_heads),
        (Spec((2, 2048, 4096)), Spec((12288, 4096)), Spec((12288,))),
    ),
    Workload(
        "qkv_separate",
        "qkv",
        _qkv_separate,
        (by_hand.qkv_separate, by_hand.qkv_separate_heads),
        (Spec((2, 2048, 4096)), Spec((4096, 4096)), Spec((1024, 4096)), Spec((1024, 4096))),
    ),
    Workload(
        "swiglu_mlp",
        "mlp",
        _swiglu_mlp,
        (by_hand.swiglu_mlp, by_hand.swiglu_mlp_wide),
        _MLP,
    ),
    Workload(
        "geglu_mlp",
        "mlp",
        _geglu_mlp,
        (by_hand.geglu_mlp, by_hand.geglu_mlp_wide),
        _MLP,
    ),
]
