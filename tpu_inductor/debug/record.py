"""Inputs and expected outputs of each program of a plan, made up and computed by the oracle.

    4_program.json   {"name": ..., "interpret": ..., "inputs": [["x", "f32", [4, 8]], ...], ...}
    4_program.npz    x: ..., y: ...; types that numpy lacks are stored as integers of their width

Nothing here is a pickle, so a dump can be sent to somebody who does not trust it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import ReplayError
from tpu_inductor.graph.core import Var
from tpu_inductor.graph.interp import run_eqn
from tpu_inductor.graph.torch_dtypes import TORCH_DTYPE
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.options import Interpret
from tpu_inductor.runtime.compiled import Plan

LIMIT_BYTES = 1 << 29
"""Graphs whose values together are larger than this are not recorded."""

_CARRIER = {DType.BF16: torch.int16, DType.F8E4M3: torch.uint8, DType.F8E5M2: torch.uint8}


@dataclass(frozen=True, slots=True)
class Record:
    """A program that can be run alone, and what it should give."""

    program: Program
    interpret: Interpret
    inputs: tuple[Tensor, ...]
    expected: tuple[Tensor, ...]


def record_programs(plan: Plan, files: Sequence[tuple[str, Program]], folder: Path) -> str:
    """Writes a record beside each program in `folder`; says how to run them, or why not."""
    values = (*plan.graph.inputs, *(v for e in plan.graph.eqns for v in e.outputs))
    size = sum(v.type.nbytes for v in values)
    if size > LIMIT_BYTES:
        return f"not recorded: the values of the graph take {size} bytes, over {LIMIT_BYTES}"
    # Backends compile under torch's fake tensors; the record holds real ones.
    with unset_fake_temporarily():
        try:
            env = _run_oracle(plan)
        except (RuntimeError, IndexError) as error:
            return f"not recorded: the oracle cannot run on made-up inputs: {error}"
        for file, program in files:
            _write(folder / file, program, plan.interpret, env)
    return f"python -m tpu_inductor.debug.replay {folder}"


def _run_oracle(plan: Plan) -> dict[Var, Tensor]:
    generator = torch.Generator().manual_seed(0)
    env = {v: make_input(v.type, generator) for v in plan.graph.inputs}
    env.update(plan.constants)
    for eqn in plan.graph.eqns:
        operands = [
            env[v] if isinstance(v, Var) else torch.tensor(v.value, dtype=TORCH_DTYPE[v.dtype])
            for v in eqn.inputs
        ]
        env.update(zip(eqn.outputs, run_eqn(eqn, operands), strict=True))
    return env


def make_input(type: TensorType, generator: torch.Generator) -> Tensor:
    """Normal floats; integers 0 and 1, which are valid as indices nearly everywhere."""
    dtype = TORCH_DTYPE[type.dtype]
    if type.dtype.is_float or type.dtype.is_complex:
        wide = torch.complex64 if type.dtype.is_complex else torch.float32
        return torch.randn(type.dims, generator=generator, dtype=wide).to(dtype)
    return torch.randint(0, 2, type.dims, generator=generator).to(dtype)


def _write(file: Path, program: Program, interpret: Interpret, env: Mapping[Var, Tensor]) -> None:
    describe = {
        "name": program.name,
        "interpret": interpret,
        "inputs": [_describe(v) for v in program.inputs],
        "outputs": [_describe(v) for v in program.outputs],
    }
    file.with_suffix(".json").write_text(json.dumps(describe, indent=1))
    arrays = {v.name: _encode(env[v]) for v in (*program.inputs, *program.outputs)}
    with file.with_suffix(".npz").open("wb") as stream:
        np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType]


def _describe(var: Var) -> tuple[str, str, tuple[int, ...]]:
    return var.name, var.type.dtype.name, var.type.dims


def _encode(tensor: Tensor) -> np.ndarray:  # pyright: ignore[reportMissingTypeArgument]
    tensor = tensor.detach().contiguous()
    carrier = next((c for d, c in _CARRIER.items() if TORCH_DTYPE[d] == tensor.dtype), None)
    return tensor.numpy() if carrier is None else tensor.view(carrier).numpy()


def read_record(file: Path) -> Record:
    """The record beside the program `file`, whose text may have been edited. Raises ReplayError."""
    description = file.with_suffix(".json")
    if not description.exists():
        why = file.with_name("replay.txt")
        told = why.read_text().strip() if why.exists() else f"{why.name} is missing too"
        raise ReplayError(f"{file} has no record of inputs and results: {told}")
    told = json.loads(description.read_text())
    inputs, outputs = ([_variable(v) for v in told[key]] for key in ("inputs", "outputs"))
    with np.load(file.with_suffix(".npz"), allow_pickle=False) as stored:
        tensors = {v: _decode(stored[v.name], v.type) for v in (*inputs, *outputs)}
    return Record(
        Program(told["name"], file.read_text(), tuple(inputs), tuple(outputs)),
        told["interpret"],
        tuple(tensors[v] for v in inputs),
        tuple(tensors[v] for v in outputs),
    )


def _variable(told: tuple[str, str, list[int]]) -> Var:
    name, dtype, shape = told
    return Var(name, TensorType(tuple(shape), DType[dtype]))


def _decode(array: np.ndarray, type: TensorType) -> Tensor:  # pyright: ignore[reportMissingTypeArgument]
    tensor = torch.from_numpy(array)
    return tensor.view(TORCH_DTYPE[type.dtype]) if type.dtype in _CARRIER else tensor
