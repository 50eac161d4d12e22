"""How far apart floats may be, found by running a program in eager with a little noise.

Sums in another order, fused multiply-adds and intermediate results that are not rounded differ in
the last places, and what follows (floor, a comparison, a cancellation) may make any difference of
that. So every operand of a call that rounds is perturbed by a few units in the last place.
One run counts denormals as zero, as XLA does on the CPU. Otherwise comparisons and moves are exact.
Where eager rounds inside of a call noise around it does not show it. A run in which such calls
compute in float64 does for types of 16 bits (the mean of a bfloat16 batch norm); one that takes
them apart, with noise between their parts, does for sums that cancel (1 + tanh in gelu).
"""

from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

RELATIVE = {
    torch.float64: 2.0**-50,
    torch.float32: 2.0**-21,
    torch.bfloat16: 2.0**-7,
    torch.float16: 2.0**-9,
}
"""A few units in the last place; of the 16-bit types one, since kernels compute in float32."""

_ROUNDS_NOTHING = {
    "_to_copy", "abs", "all", "amax", "amin", "aminmax", "any", "argmax", "argmin",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cat", "ceil", "clamp",
    "clamp_max", "clamp_min", "clone", "constant_pad_nd", "copy_", "copysign", "cummax",
    "detach", "diag_embed", "embedding", "empty_like", "empty_strided", "eq", "eye", "fill",
    "fill_", "flip", "floor", "frac", "full_like", "gather", "ge", "gt", "hardtanh", "index",
    "index_fill", "index_fill_", "index_put", "index_put_", "index_select", "isfinite", "isinf",
    "isnan", "le", "leaky_relu", "linspace", "logical_and", "logical_not", "logical_or",
    "logical_xor", "lt", "masked_fill", "masked_fill_", "masked_scatter", "masked_select",
    "max", "max_pool1d", "max_pool2d_with_indices", "maximum", "min", "minimum", "nan_to_num",
    "ne", "neg", "ones_like", "rand_like", "relu", "relu_", "repeat", "repeat_interleave",
    "resize", "resize_", "roll", "round", "scatter", "scatter_", "select_backward",
    "select_scatter", "set_", "sign", "signbit", "slice_backward", "slice_scatter", "sort",
    "stack", "take", "tril", "triu", "trunc", "upsample_nearest1d", "where", "zero_",
    "zeros_like",
}  # fmt: skip
"""Calls whose results are elements of their operands, or exact answers about them."""


def _rounds(func: Any) -> bool:
    return not func.is_view and func._schema.name.removeprefix("aten::") not in _ROUNDS_NOTHING


def _written(func: Any) -> set[int]:
    """The places of the arguments that a call writes to."""
    infos = [a.alias_info for a in func._schema.arguments]
    return {i for i, info in enumerate(infos) if info is not None and info.is_write}


class Noise(TorchDispatchMode):
    """Perturbs the float operands of every call that rounds. The same noise for the same seed.

    Seed 0 also counts denormals as zero, and lets variances overflow as their sums of squares do.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._flushes = seed == 0
        self._rng = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _rounds(func):
            args = self._make_noisy(func, args)
        torch.set_flush_denormal(self._flushes)
        try:
            result = self._call(func, args, kwargs)
        finally:
            torch.set_flush_denormal(False)
        is_spread = func.overloadpacket in (torch.ops.aten.var, torch.ops.aten.std)
        return _overflow(func, args[0], result) if self._flushes and is_spread else result

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def _make_noisy(self, func: Any, args: Any) -> list[Any]:
        written = _written(func)
        noisy = [
            a if i in written else pytree.tree_map_only(torch.Tensor, self._perturb, a)
            for i, a in enumerate(args)
        ]
        for i in written & set(range(len(args))):
            self._disturb(args[i])
        return noisy

    def _perturb(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in RELATIVE or not tensor.numel():
            return tensor
        if self._flushes:  # torch's loops over few elements do not
            is_denormal = tensor.abs() < torch.finfo(tensor.dtype).tiny
            tensor = torch.where(is_denormal, tensor * 0.0, tensor)
        noise = torch.rand(tensor.shape, generator=self._rng, dtype=torch.float64) * 2 - 1
        noisy = tensor.double() * (1 + RELATIVE[tensor.dtype] * noise)
        # In the memory order of the original: strides of results follow those of operands.
        return torch.empty_like(tensor).copy_(noisy.to(tensor.dtype))

    def _disturb(self, tensor: torch.Tensor) -> None:
        """As `_perturb`, in place, for what the call itself will write to."""
        if tensor.dtype in RELATIVE:
            tensor.copy_(self._perturb(tensor))


class Apart(Noise):
    """Noise between the parts of calls that torch can take apart, too.

    Other implementations round in other places inside, and what they compute may cancel there.
    """

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        whole = not _rounds(func) or _written(func)
        if whole or func not in decomposition_table or _is_random(func):
            return result
        try:
            with self:
                parts = decomposition_table[func](*args, **kwargs)
        except (RuntimeError, TypeError):  # not for these types
            return result
        pytree.tree_map(_round_into, result, parts)
        return result


def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _overflow(func: Any, operand: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """`result`, infinite where float32 cannot hold the sum of squares; torch sums in float64."""
    if result.dtype is torch.float64:
        return result
    variance = result.double()
    if func.overloadpacket is torch.ops.aten.std:
        variance = variance.square()
    limit = torch.finfo(torch.float32).max / max(operand.numel(), 1)
    return torch.where(variance > limit, torch.inf, result)


class Wide(TorchDispatchMode):
    """Calls that round compute in float64, and round their results alone."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _rounds(func) or _is_random(func):
            return func(*args, **kwargs)
        wide_args, wide_kwargs = pytree.tree_map_only(torch.Tensor, _widen, (list(args), kwargs))
        result = func(*args, **kwargs)
        try:
            wide = func(*wide_args, **wide_kwargs)
        except (RuntimeError, TypeError):  # a call for some types alone
            return result
        written = [i for i in _written(func) if i < len(args)]
        for i in written:
            _round_into(args[i], wide_args[i])
        if not written:
            pytree.tree_map(_round_into, result, wide)
        return result


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()


def _round_into(narrow: Any, wide: Any) -> None:
    if isinstance(narrow, torch.Tensor) and narrow.is_floating_point():
        narrow.copy_(wide)


def noisy_modes() -> tuple[TorchDispatchMode, ...]:
    """What eager runs under, one at a time, to show how far apart floats may be."""
    return *map(Noise, range(3)), *map(Apart, range(3, 6)), Wide()
