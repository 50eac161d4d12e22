"""The torch meaning of contractions: dot, convolution. 16-bit floats use float32."""

import torch
from torch import Tensor

from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.interp_pointwise import Meaning
from tpu_inductor.graph.interp_tensor import pad_tensor
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Where products of `dtype` add up: exactly for integers, in float32 for narrow floats."""
    if dtype.is_floating_point:
        return torch.promote_types(dtype, torch.float32) if dtype.itemsize > 1 else torch.float32
    return torch.int64


def _dot(attrs: A.Dot, lhs: Tensor, rhs: Tensor) -> Tensor:
    out = TORCH_DTYPE[attrs.dtype]
    acc = torch.promote_types(_wide(lhs.dtype), _wide(out))
    left = lhs.permute(*attrs.lhs_batch, *attrs.free("lhs", lhs.ndim), *attrs.lhs_contract).to(acc)
    right = rhs.permute(*attrs.rhs_batch, *attrs.rhs_contract, *attrs.free("rhs", rhs.ndim)).to(acc)
    batches, inner = len(attrs.lhs_batch), len(attrs.lhs_contract)
    batch, m = left.shape[:batches], left.shape[batches : left.ndim - inner]
    k, n = right.shape[batches : batches + inner], right.shape[batches + inner :]
    product = torch.matmul(
        left.reshape(*batch, m.numel(), k.numel()), right.reshape(*batch, k.numel(), n.numel())
    )
    return product.reshape((*batch, *m, *n)).to(out)


def _conv(attrs: A.Conv, x: Tensor, w: Tensor) -> Tensor:
    rank = x.ndim - 2
    if rank not in _CONVOLUTIONS:
        raise InvalidIR(f"convolution over {rank} spatial dimensions")
    # torch has no integer convolution; float64 is exact for sums below 2**53.
    acc = _wide(x.dtype) if x.is_floating_point() else torch.float64
    x = x.movedim(-1, 1) if attrs.channels_last else x
    pad = A.Pad(
        (0, 0, *(low for low, _ in attrs.padding)),
        (0, 0, *(high for _, high in attrs.padding)),
        (0, 0, *(d - 1 for d in attrs.lhs_dilation)),
    )
    padded = pad_tensor(pad, x.to(acc), torch.zeros((), dtype=acc))
    out = _CONVOLUTIONS[rank](
        padded,
        w.to(acc),
        stride=attrs.strides,
        dilation=attrs.rhs_dilation,
        groups=attrs.groups,
    )
    out = out.movedim(1, -1) if attrs.channels_last else out
    return out.to(x.dtype)


_CONVOLUTIONS = {
    1: torch.nn.functional.conv1d,
    2: torch.nn.functional.conv2d,
    3: torch.nn.functional.conv3d,
}


CONTRACTIONS: dict[str, Meaning] = {"dot": _dot, "conv": _conv}
"""The rows of `interp.MEANING` that contract."""
