"""What the caller gets: one reader per result, from registers to a tensor, a number or None.

A result shares memory with an argument or another result only where torch itself would return an
alias; AOTAutograd relies on the difference.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from tpu_inductor.graph.attrs import EagerCall
from tpu_inductor.graph.core import Eqn, Lit
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


def read_literal(lit: Lit, perm: tuple[int, ...]) -> Reader:
    dtype = TORCH_DTYPE[lit.dtype]
    return lambda regs, results: torch.tensor(lit.value, dtype=dtype).permute(perm)


def read_number(register: int) -> Reader:
    return lambda regs, results: regs[register].item()


def read_argument(register: int, given: tuple[int, ...], perm: tuple[int, ...]) -> Reader:
    """The argument itself, or a view of it; the register holds it seen through `given`."""
    seen = tuple(given[p] for p in perm)
    if seen == tuple(range(len(seen))):
        return ReadRegister(register)
    return lambda regs, results: regs[register].permute(seen)


def read_tensor(register: int, perm: tuple[int, ...], is_copied: bool) -> Reader:
    if is_copied:
        return lambda regs, results: _copy(regs[register]).permute(perm)
    if perm == tuple(range(len(perm))):
        return ReadRegister(register)
    return lambda regs, results: regs[register].permute(perm)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def may_alias(eqn: Eqn) -> bool:
    """Whether the results of an eager call may be views of its operands."""
    assert isinstance(eqn.attrs, EagerCall)
    target = getattr(eqn.attrs.target, "op", eqn.attrs.target)
    if not isinstance(target, OpOverload):
        return True
    return any(r.alias_info is not None for r in target._schema.returns)
