"""Kernels beside those of the workloads, to calibrate the cost model on.

They are of the kinds that models have and the workloads lack: other functions, other widths, other
reductions, matmuls of other shapes and with other epilogues. Sizes are such that they compile fast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from workloads import Spec

BF16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True, slots=True)
class Case:
    """A torch function of one kernel, and the arguments that it takes."""

    name: str
    function: Callable[..., Any]
    specs: Sequence[Spec]


def _softmax_backward(g: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    wide, out = g.float(), y.float()
    return (out * (wide - (wide * out).sum(-1, keepdim=True))).to(g.dtype)


def _layer_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """`x` is normalised."""
    scaled = g * w
    along = x * (scaled * x).mean(-1, keepdim=True)
    return scaled - scaled.mean(-1, keepdim=True) - along


def _lstm_gates(i: torch.Tensor, f: torch.Tensor, g: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)


def _batch_norm(
    x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, w: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    return F.relu(F.batch_norm(x, mean, var, w, b))


def _normalise(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-12)).to(x.dtype)


def _entropy(x: torch.Tensor) -> torch.Tensor:
    log_p = x.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def _gated(x: torch.Tensor, w: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w) * torch.sigmoid(gate)


def _relu_squared(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.relu(F.linear(x, w)).square()


def _scaled_product(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.matmul(q, k.transpose(-1, -2)) * 0.125


def _bf16(*shape: int) -> Spec:
    return Spec(shape, BF16)


def _f32(*shape: int) -> Spec:
    return Spec(shape, F32)


_CHANNELS = _f32(256)

ROWS = [
    Case("add_small_f32", torch.add, (_f32(512, 4096),) * 2),
    Case("gelu_f32", F.gelu, (_f32(4096, 2048),)),
    Case("exp_log_bf16", lambda x: (x.exp() + 1).log(), (_bf16(8192, 4096),)),
    Case("mish_f32", F.mish, (_f32(4096, 4096),)),
    Case("softplus_bf16", F.softplus, (_bf16(8192, 8192),)),
    Case("power_f32", lambda x: x.abs().pow(0.75), (_f32(4096, 2048),)),
    Case("sin_f32", torch.sin, (_f32(2048, 2048),)),
    Case("divide_f32", lambda x, y: x / (y.sqrt() + 1e-8), (_f32(8192, 1024),) * 2),
    Case("lstm_gates_bf16", _lstm_gates, (_bf16(4096, 4096),) * 4),
    Case("batch_norm_relu_f32", _batch_norm, (_f32(32, 256, 56, 56), *(_CHANNELS,) * 4)),
    Case("softmax_backward_bf16", _softmax_backward, (_bf16(4096, 8192),) * 2),
    Case("softmax_2k_bf16", lambda x: x.softmax(-1), (_bf16(8192, 2048),)),
    Case("layer_norm_1k_f32", lambda x: F.layer_norm(x, x.shape[-1:]), (_f32(16384, 1024),)),
    Case("layer_norm_backward_f32", _layer_norm_backward, (*(_f32(8192, 2048),) * 2, _f32(2048))),
    Case("normalise_1k_bf16", _normalise, (_bf16(32768, 1024),)),
    Case("row_sum_8k_f32", lambda x: x.sum(-1), (_f32(4096, 8192),)),
    Case("row_max_16k_f32", lambda x: x.amax(-1), (_f32(2048, 16384),)),
    Case("logsumexp_32k_f32", lambda x: x.logsumexp(-1), (_f32(1024, 32768),)),
    Case("entropy_8k_f32", _entropy, (_f32(2048, 8192),)),
    Case("argmin_4k_f32", lambda x: x.argmin(-1), (_f32(8192, 4096),)),
    Case("column_sum_bf16", lambda x: x.float().sum(0), (_bf16(16384, 2048),)),
    Case("column_max_f32", lambda x: x.amax(0), (_f32(8192, 8192),)),
    Case("column_squares_f32", lambda x: x.square().sum(0), (_f32(32768, 1024),)),
    Case("norm_of_all_f32", lambda x: x.square().sum(), (_f32(4096, 4096),)),
]

MATMULS = [
    Case("matmul_bias_bf16", F.linear, (_bf16(2048, 2048), _bf16(2048, 2048), _bf16(2048))),
    Case("matmul_gated_bf16", _gated, (_bf16(2048, 1024), _bf16(4096, 1024), _bf16(2048, 4096))),
    Case("matmul_relu_squared_bf16", _relu_squared, (_bf16(4096, 1024), _bf16(1024, 1024))),
    Case("matmul_deep_bf16", torch.matmul, (_bf16(512, 16384), _bf16(16384, 512))),
    Case("matmul_narrow_bf16", torch.matmul, (_bf16(16384, 2048), _bf16(2048, 256))),
    Case("matmul_decode_f32", torch.matmul, (_f32(8, 4096), _f32(4096, 4096))),
    Case("batched_512_bf16", torch.bmm, (_bf16(32, 512, 512), _bf16(32, 512, 512))),
    Case("attention_scores_bf16", _scaled_product, (_bf16(16, 1024, 128), _bf16(16, 1024, 128))),
]

CASES: dict[str, Case] = {case.name: case for case in (*ROWS, *MATMULS)}
"""By name."""

LEFT_OUT = frozenset(
    [
        "log_softmax_1k_f32",
        "log_softmax_4k_bf16",
        "log_softmax_32k_f32",
        "log_softmax_32k_bf16",
        "softmax_128k_f32",
        "log_softmax_128k_f32",
        "softmax_256k_f32",
        "log_softmax_256k_f32",
        "cross_entropy_128k",
        "cross_entropy_128k_grad",
        "qkv_fused",
        "qkv_separate",
        "swiglu_mlp",
        "geglu_mlp",
        "llama_block",
    ]
)
"""Workloads that are left out unless they are named: their kernels take long to compile, or are
nearly those of another workload."""
