"""The correspondence of element types to `torch.dtype`."""

import torch

from tpu_inductor.graph.types import DType

TORCH_DTYPE: dict[DType, torch.dtype] = {
    DType.F64: torch.float64,
    DType.F32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.F16: torch.float16,
    DType.F8E4M3: torch.float8_e4m3fn,
    DType.F8E5M2: torch.float8_e5m2,
    DType.I64: torch.int64,
    DType.I32: torch.int32,
    DType.I16: torch.int16,
    DType.I8: torch.int8,
    DType.U64: torch.uint64,
    DType.U32: torch.uint32,
    DType.U16: torch.uint16,
    DType.U8: torch.uint8,
    DType.BOOL: torch.bool,
    DType.C64: torch.complex64,
    DType.C128: torch.complex128,
}

FROM_TORCH: dict[torch.dtype, DType] = {theirs: ours for ours, theirs in TORCH_DTYPE.items()}
