"""What the caller gets: one reader per result, from registers to a tensor, a number or None.

A result shares memory with an argument or another result only where torch itself would return an
alias, and then has the strides and the offset of that alias: AOTAutograd makes it anew from them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from tpu_inductor.front.memory import lay_out, reinterpret_tensor
from tpu_inductor.graph.attrs import EagerCall
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.signature import Layout, TensorInput
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.runtime.steps import Registers, read_registers

Reader: TypeAlias = Callable[[Registers, list[Any]], Any]
"""(registers, results so far) -> the next result."""


@dataclass(frozen=True, slots=True)
class ReadRegister:
    """A result that is what a register holds; as a value of its own, so that many read at once."""

    register: int

    def __call__(self, regs: Registers, results: list[Any]) -> Any:
        return regs[self.register]


def read_all(readers: Sequence[Reader]) -> Callable[[Registers], tuple[Any, ...]]:
    """All results of a call."""
    plain = [r.register for r in readers if isinstance(r, ReadRegister)]
    if len(plain) == len(readers):
        return read_registers(tuple(plain))

    def read(regs: Registers) -> tuple[Any, ...]:
        results: list[Any] = []
        for reader in readers:
            results.append(reader(regs, results))
        return tuple(results)

    return read


def read_constant(value: Any) -> Reader:
    return lambda regs, results: value


def read_earlier(index: int) -> Reader:
    return lambda regs, results: results[index]


def read_number(register: int) -> Reader:
    return lambda regs, results: regs[register].item()


def read_view(register: int, base: Layout, layout: Layout) -> Reader:
    """Another tensor in the storage of the register's, which lies there as `base`.

    It is no view as autograd sees it: AOTAutograd forbids writes to those that leave a graph, and
    declares what it wants declared itself.
    """
    shape, strides = layout.shape, layout.strides
    if layout.dtype is base.dtype:
        ahead = layout.offset - base.offset
        return lambda regs, results: reinterpret_tensor(regs[register], shape, strides, ahead)
    offset = layout.offset
    return lambda regs, results: _see_storage(regs[register], layout, offset)


def read_argument(register: int, given: TensorInput, layout: Layout | None) -> Reader:
    """The argument itself, or a view of it, as torch would return it."""
    if layout is None:
        return ReadRegister(register)
    shape, strides, ahead = layout.shape, layout.strides, layout.offset
    is_same_type = layout.dtype is given.var.type.dtype

    def read(regs: Registers, results: list[Any]) -> Tensor:
        tensor = _restride(regs[register], given)
        if is_same_type:
            return tensor.as_strided(shape, strides, tensor.storage_offset() + ahead)
        skipped = int(tensor.storage_offset()) * tensor.itemsize // layout.dtype.itemsize
        return _see_storage(tensor, layout, skipped + ahead)

    return read


def _restride(tensor: Tensor, given: TensorInput) -> Tensor:
    """`tensor` itself where its strides are those that views of it were computed for."""
    if tensor.stride() == given.strides or not tensor.numel():
        return tensor
    pairs = zip(given.shape, tensor.stride(), given.strides, strict=True)
    if all(extent == 1 or got == wanted for extent, got, wanted in pairs):
        return tensor
    return lay_out(tensor, Layout(given.var.type.dtype, given.shape, given.strides))


def _see_storage(tensor: Tensor, layout: Layout, offset: int) -> Tensor:
    seen = torch.empty(0, dtype=TORCH_DTYPE[layout.dtype])
    return seen.set_(tensor.untyped_storage(), offset, layout.shape, layout.strides)


def may_alias(eqn: Eqn) -> bool:
    """Whether the results of an eager call may be views of its operands."""
    assert isinstance(eqn.attrs, EagerCall)
    target = getattr(eqn.attrs.target, "op", eqn.attrs.target)
    if not isinstance(target, OpOverload):
        return True
    return any(r.alias_info is not None for r in target._schema.returns)
