"""The steps of a call over numbered registers: programs, eager calls, conversions between them.

A value may have two registers, one as an array for programs and one as a tensor for torch; each is
filled at most once a call. A value that only torch steps touch is never converted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tpu_inductor.front.memory import lay_out, lies_as
from tpu_inductor.graph.core import Eqn
from tpu_inductor.graph.interp import run_eqn
from tpu_inductor.graph.signature import Layout
from tpu_inductor.graph.types import DType
from tpu_inductor.runtime.adapters.protocol import Adapter, Array, Launch
from tpu_inductor.runtime.checks import raise_failure

Registers: TypeAlias = list[Any]


def read_registers(registers: tuple[int, ...]) -> Callable[[Registers], tuple[Any, ...]]:
    """The contents of `registers`, at the speed of C where there are many."""
    match registers:
        case ():
            return lambda regs: ()
        case (only,):
            return lambda regs: (regs[only],)
        case _:
            return itemgetter(*registers)


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One dispatch."""

    launch: Launch
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    read: Callable[[Registers], tuple[Any, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read", read_registers(self.inputs))

    def run(self, regs: Registers) -> None:
        results = self.launch(self.read(regs))
        # Not with `strict`: a program's type is fixed, and this is the path of every call.
        for register, result in zip(self.outputs, results):  # noqa: B905
            regs[register] = result


@dataclass(frozen=True, slots=True)
class CheckStep:
    """A check of an argument, on the host: numpy takes a tenth of the time of XLA's reduction."""

    eqn: Eqn
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()

    def run(self, regs: Registers) -> None:
        (register,) = self.inputs
        raise_failure(self.eqn, regs[register])


@dataclass(frozen=True, slots=True)
class EagerStep:
    """An ATen call in torch. Autograd has been traced into the graph, so it does not record."""

    eqn: Eqn
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def run(self, regs: Registers) -> None:
        with torch.no_grad():
            results = run_eqn(self.eqn, [regs[i] for i in self.inputs])
        for register, result in zip(self.outputs, results, strict=True):
            regs[register] = result


@dataclass(frozen=True, slots=True)
class ToTensor:
    """A program's result, for a torch step or the caller, by a function of the adapter."""

    convert: Callable[[Array], Tensor]
    source: int
    target: int

    def run(self, regs: Registers) -> None:
        regs[self.target] = self.convert(regs[self.source])


@dataclass(frozen=True, slots=True)
class ToArray:
    """A torch step's result, for a program."""

    adapter: Adapter
    dtype: DType
    source: int
    target: int

    def run(self, regs: Registers) -> None:
        regs[self.target] = self.adapter.stage(regs[self.source], self.dtype)


@dataclass(frozen=True, slots=True)
class ToStorage:
    """A tensor as a result's memory: itself where it lies there as it should, or else a copy.

    `is_shared` says that somebody else has the tensor, so that it must be a copy.
    """

    layout: Layout
    is_shared: bool
    source: int
    target: int

    def run(self, regs: Registers) -> None:
        tensor = regs[self.source]
        is_it = not self.is_shared and lies_as(tensor, self.layout)
        regs[self.target] = tensor if is_it else lay_out(tensor, self.layout)


Step: TypeAlias = ProgramStep | CheckStep | EagerStep | ToTensor | ToArray | ToStorage


@dataclass(frozen=True, slots=True)
class Timed:
    """A step, and the registers that nothing reads after it."""

    run: Callable[[Registers], None]
    dead: tuple[int, ...]


def reads(step: Step) -> tuple[int, ...]:
    """The registers that a step reads."""
    return step.inputs if isinstance(step, ProgramStep | CheckStep | EagerStep) else (step.source,)


def writes(step: Step) -> tuple[int, ...]:
    """The registers that a step fills."""
    return step.outputs if isinstance(step, ProgramStep | CheckStep | EagerStep) else (step.target,)


def free_early(steps: list[Step], kept: frozenset[int]) -> tuple[Timed, ...]:
    """Each step with the registers that die after it; those in `kept` outlive the call."""
    alive = set(kept)
    timed: list[Timed] = []
    for step in reversed(steps):
        touched = dict.fromkeys((*reads(step), *writes(step)))
        timed.append(Timed(step.run, tuple(r for r in touched if r not in alive)))
        alive.update(touched)
    return tuple(reversed(timed))
