"""A compiled graph: the plan as data, and the callable that AOTAutograd calls.

A call checks its arguments against the signature, runs the steps, and reads the results. After the
first call there is no tracing, no building of specs and no conversion of parameters.
"""

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import LaunchError
from tpu_inductor.graph.core import Eqn, Graph, Var
from tpu_inductor.graph.signature import Signature
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.options import Interpret
from tpu_inductor.runtime.adapters.protocol import Adapter
from tpu_inductor.runtime.bind import Bound, NumberArgument, bind
from tpu_inductor.runtime.fork import describe_fork
from tpu_inductor.runtime.steps import Registers


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the runtime knows of a graph: programs and eager equations, in order.

    `checks` are those of arguments, made before anything runs.
    """

    name: str
    graph: Graph
    signature: Signature
    constants: tuple[tuple[Var, Tensor], ...]
    steps: tuple[Program | Eqn, ...]
    interpret: Interpret
    checks: tuple[Eqn, ...] = ()

    def __str__(self) -> str:
        lines = [f"plan {self.name}", *(f"  check    {eqn}" for eqn in self.checks)]
        for step in self.steps:
            if isinstance(step, Eqn):
                lines.append(f"  eager    {step}")
            else:
                inputs, outputs = (", ".join(map(str, v)) for v in (step.inputs, step.outputs))
                lines.append(f"  program  {outputs} = {step.name}({inputs})")
        return "\n".join(lines)


class CompiledGraph:
    """Calls a plan: `(args: list) -> tuple`. Empties the list, so that its tensors can die early.

    Raises LaunchError for arguments that the graph was not compiled for, and in a fork of the
    process that compiled it; Unsupported for tensors on a device that the adapter does not take.
    """

    _boxed_call = True

    def __init__(self, plan: Plan, adapter: Adapter) -> None:
        self.plan = plan
        self.adapter = adapter
        self._process = adapter.process()
        # Backends compile under torch's fake tensors; constants and literals are real.
        with unset_fake_temporarily():
            self._bound = bind(
                plan.signature, plan.constants, plan.checks, plan.steps, plan.interpret, adapter
            )

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        if os.getpid() != self._process:
            raise LaunchError(describe_fork(f"graph {self.plan.name} was compiled", self._process))
        bound = self._bound
        if len(args) != bound.arity:
            raise LaunchError(f"{self.plan.name} takes {bound.arity} arguments, got {len(args)}")
        regs = self._bind_arguments(bound, args)
        args.clear()
        for step in bound.steps:
            step.run(regs)
            for register in step.dead:
                regs[register] = None
        return bound.read(regs)

    def _bind_arguments(self, bound: Bound, args: list[Any]) -> Registers:
        regs = list(bound.registers)
        # A model has hundreds of parameters: most are arrays and nothing else.
        for index, to_array, register in bound.arrays:
            regs[register] = to_array(args[index])
        for argument in bound.tensors:
            tensor, slot = args[argument.index], argument.slot
            if not argument.is_array:
                slot.check(tensor)
            if argument.dense is not None:
                regs[argument.dense] = slot.dense(tensor)
            if argument.itself is not None:
                regs[argument.itself] = tensor
        for number in bound.numbers:
            _bind_number(regs, number, args[number.index], self.adapter)
        return regs


def _bind_number(regs: Registers, number: NumberArgument, value: Any, adapter: Adapter) -> None:
    dtype = number.given.var.type.dtype
    if isinstance(value, Tensor):
        value = value.item()
    if not isinstance(value, int | float) or (isinstance(value, float) and not dtype.is_float):
        raise LaunchError(
            f"argument {number.index} ({number.given.var}): expected a number of type "
            f"{dtype.short}, got {value!r} of type {type(value).__name__}"
        )
    if number.array is not None:
        regs[number.array] = adapter.number(value, dtype)
    if number.tensor is not None:
        regs[number.tensor] = torch.tensor(value, dtype=TORCH_DTYPE[dtype])
