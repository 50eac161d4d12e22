"""From a plan to a bound call: registers, argument slots, steps in order, readers of the results.

All of it happens once, when a graph is compiled; a call only walks the lists that come out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import InvalidIR
from tpu_inductor.graph.core import Eqn, Lit, Value, Var
from tpu_inductor.graph.signature import (
    ArgumentOutput,
    ConstantOutput,
    Layout,
    SameAsResult,
    ScalarInput,
    ScalarOutput,
    Signature,
    TensorInput,
    TensorOutput,
)
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.options import Interpret
from tpu_inductor.runtime.adapters.protocol import Adapter
from tpu_inductor.runtime.checks import raise_failures
from tpu_inductor.runtime.results import (
    Reader,
    ReadRegister,
    may_alias,
    read_all,
    read_argument,
    read_constant,
    read_earlier,
    read_number,
    read_view,
)
from tpu_inductor.runtime.slot import Slot
from tpu_inductor.runtime.steps import (
    CheckStep,
    EagerStep,
    ProgramStep,
    Registers,
    Step,
    Timed,
    ToArray,
    ToStorage,
    ToTensor,
    free_early,
)


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """Where an argument goes as a tensor: as itself, as its dense view. None: not needed.

    `is_array` says that it is also among the arrays, whose conversion checks it.
    """

    slot: Slot
    index: int
    itself: int | None
    dense: int | None
    is_array: bool


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """Where a number goes."""

    index: int
    given: ScalarInput
    tensor: int | None
    array: int | None


@dataclass(frozen=True, slots=True)
class Bound:
    """A graph ready to be called. `registers` holds the constants; a call starts from a copy.

    `arrays` lists the arguments that programs take: their index, conversion and register.
    """

    arity: int
    slots: tuple[Slot, ...]
    arrays: tuple[tuple[int, Callable[[Tensor], Any], int], ...]
    tensors: tuple[TensorArgument, ...]
    numbers: tuple[NumberArgument, ...]
    steps: tuple[Timed, ...]
    read: Callable[[Registers], tuple[Any, ...]]
    registers: tuple[Any, ...]


@dataclass(slots=True)
class _Binder:
    """The registers given out so far, by value and form.

    `fixed` have tensors in memory that cannot be resized.
    """

    adapter: Adapter
    registers: list[Any] = field(default_factory=list[Any])
    arrays: dict[Var, int] = field(default_factory=dict[Var, int])
    tensors: dict[Var, int] = field(default_factory=dict[Var, int])
    arguments: dict[Var, int] = field(default_factory=dict[Var, int])
    given: dict[Var, TensorInput | ScalarInput] = field(
        default_factory=dict[Var, TensorInput | ScalarInput]
    )
    shared: set[Var] = field(default_factory=set[Var])
    eager: set[Var] = field(default_factory=set[Var])
    fixed: set[int] = field(default_factory=set[int])
    results: set[int] = field(default_factory=set[int])
    steps: list[Step] = field(default_factory=list[Step])

    def fresh(self, content: Any = None) -> int:
        self.registers.append(content)
        return len(self.registers) - 1

    def array(self, var: Var) -> int:
        """The register of `var` as an array; a step that fills it is added where there is none."""
        if var not in self.arrays:
            if var in self.tensors and var not in self.given:
                target = self.fresh()
                step = ToArray(self.adapter, var.type.dtype, self.tensors[var], target)
                self.steps.append(step)
            else:
                self._check_given(var)
                target = self.fresh()
            self.arrays[var] = target
        return self.arrays[var]

    def tensor(self, value: Value) -> int:
        """The register of `value` as a tensor, as `array`."""
        if isinstance(value, Lit):
            return self.fresh(torch.tensor(value.value, dtype=TORCH_DTYPE[value.dtype]))
        if value not in self.tensors:
            target = self.fresh()
            if value in self.arrays and value not in self.given:
                self.steps.append(ToTensor(self.adapter.to_torch, self.arrays[value], target))
                self.fixed.add(target)
            else:
                self._check_given(value)
            self.tensors[value] = target
        return self.tensors[value]

    def returned(self, value: Value) -> int:
        """The register of `value` as a tensor for the user: in torch's own memory, if it is new."""
        if value in self.arrays and value not in self.tensors and value not in self.given:
            assert isinstance(value, Var)
            target = self.tensors[value] = self.fresh()
            copy = self.adapter.copier(value.type)
            self.steps.append(ToTensor(copy, self.arrays[value], target))
        return self.tensor(value)

    def argument(self, var: Var) -> int:
        """The register of the caller's own tensor."""
        if var not in self.arguments:
            self.arguments[var] = self.fresh()
        return self.arguments[var]

    def kept(self, register: int) -> int:
        """`register`, which a result is read from after all steps."""
        self.results.add(register)
        return register

    def _check_given(self, var: Var) -> None:
        if var not in self.given:
            raise InvalidIR(f"{var} is read before a step defines it")


def bind(
    signature: Signature,
    constants: tuple[tuple[Var, Tensor], ...],
    checks: tuple[Eqn, ...],
    steps: tuple[Program | Eqn, ...],
    interpret: Interpret,
    adapter: Adapter,
) -> Bound:
    """Compiles the programs of `steps` and numbers every value. Raises InvalidIR."""
    b = _Binder(adapter)
    for given in signature.inputs:
        if isinstance(given, TensorInput | ScalarInput):
            b.given[given.var] = given
    for var, tensor in constants:
        b.tensors[var] = b.fresh(tensor)
        b.arrays[var] = b.fresh(_constant_array(adapter, var, tensor))
        b.shared.add(var)
    for eqn in checks:
        (var,) = eqn.operands
        b.steps.append(CheckStep(eqn, (b.array(var),)))
    for step in steps:
        _bind_step(b, step, interpret)
    readers = _bind_results(b, signature)
    return _finish(b, signature, readers)


def _constant_array(adapter: Adapter, var: Var, tensor: Tensor) -> Any:
    held = adapter.hold(tensor, var.type.dtype)
    return adapter.stage(tensor, var.type.dtype) if held is None else held


def _bind_step(b: _Binder, step: Program | Eqn, interpret: Interpret) -> None:
    if isinstance(step, Eqn):
        inputs = tuple(b.tensor(v) for v in step.inputs)
        outputs = tuple(b.fresh() for _ in step.outputs)
        b.tensors.update(zip(step.outputs, outputs, strict=True))
        b.eager.update(step.outputs)
        if may_alias(step):
            b.shared.update(step.outputs)
        b.steps.append(EagerStep(step, inputs, outputs))
        return
    inputs = tuple(b.array(v) for v in step.inputs)
    outputs = tuple(b.fresh() for _ in step.outputs)
    b.arrays.update(zip(step.outputs, outputs, strict=True))
    launch = raise_failures(b.adapter.compile(step, interpret), step)
    b.steps.append(ProgramStep(launch, inputs, outputs))


def _bind_results(b: _Binder, signature: Signature) -> tuple[Reader, ...]:
    readers: list[Reader] = []
    storages: dict[int, _Storage] = {}
    for output in signature.outputs:
        match output:
            case ConstantOutput(value):
                reader = read_constant(value)
            case SameAsResult(index):
                reader = read_earlier(index)
            case ScalarOutput(Lit(value)):
                reader = read_constant(value)
            case ScalarOutput(value):
                reader = read_number(b.kept(b.tensor(value)))
            case ArgumentOutput(index, layout):
                given = signature.inputs[index]
                assert isinstance(given, TensorInput)  # the importer says so
                reader = read_argument(b.kept(b.argument(given.var)), given, layout)
            case TensorOutput():
                reader = _bind_tensor_result(b, output, storages)
        readers.append(reader)
    return tuple(readers)


@dataclass(slots=True)
class _Storage:
    """Where a result's memory is at the end of a call; `is_given` where a result is all of it."""

    register: int
    is_given: bool = False


def _bind_tensor_result(b: _Binder, output: TensorOutput, storages: dict[int, _Storage]) -> Reader:
    if output.storage not in storages:
        taken = {s.register for s in storages.values()}
        storages[output.storage] = _Storage(b.kept(_bind_storage(b, output, taken)))
    storage = storages[output.storage]
    if output.layout == output.base and not storage.is_given:
        storage.is_given = True
        return ReadRegister(storage.register)
    return read_view(storage.register, output.base, output.layout)


def _bind_storage(b: _Binder, output: TensorOutput, taken: set[int]) -> int:
    """The register with the tensor whose memory is the storage of `output`."""
    value, base = output.value, output.base
    source = b.returned(value) if output.is_returned else b.tensor(value)
    is_shared = isinstance(value, Lit) or value in b.shared or value in b.given or source in taken
    is_shared |= output.is_returned and source in b.fixed
    is_dense = value not in b.eager and base == Layout.row_major(base.dtype, base.shape)
    if is_dense and not is_shared:
        return source
    target = b.fresh()
    b.steps.append(ToStorage(base, is_shared, source, target))
    return target


def _finish(b: _Binder, signature: Signature, readers: tuple[Reader, ...]) -> Bound:
    slots: list[Slot] = []
    arrays: list[tuple[int, Callable[[Tensor], Any], int]] = []
    tensors: list[TensorArgument] = []
    numbers: list[NumberArgument] = []
    for index, given in enumerate(signature.inputs):
        if isinstance(given, TensorInput):
            var = given.var
            itself, dense, array = (m.get(var) for m in (b.arguments, b.tensors, b.arrays))
            slot = Slot(index, given, b.adapter)
            slots.append(slot)
            if array is not None:
                arrays.append((index, slot.array, array))
            if array is None or dense is not None or itself is not None:
                tensors.append(TensorArgument(slot, index, itself, dense, array is not None))
        elif isinstance(given, ScalarInput):
            tensor, array = b.tensors.get(given.var), b.arrays.get(given.var)
            numbers.append(NumberArgument(index, given, tensor, array))
    return Bound(
        len(signature.inputs),
        tuple(slots),
        tuple(arrays),
        tuple(tensors),
        tuple(numbers),
        free_early(b.steps, frozenset(b.results)),
        read_all(readers),
        tuple(b.registers),
    )
