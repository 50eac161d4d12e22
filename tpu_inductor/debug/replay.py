"""Reruns the programs of a dump, edited or not, against what the oracle gave when it was written.

$ python -m tpu_inductor.debug.replay tpu_tile_debug/0003_forward
4_program.py  y f32[4,8]  largest difference 2.4e-07  ok
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from tpu_inductor.codegen.program import Program
from tpu_inductor.debug.record import read_record
from tpu_inductor.errors import ReplayError
from tpu_inductor.graph.types import DType
from tpu_inductor.options import Interpret
from tpu_inductor.runtime.adapters.cpu import CpuAdapter

TOLERANCE = {
    DType.F64: 1e-9,
    DType.F32: 1e-4,
    DType.F16: 4e-3,
    DType.BF16: 2e-2,
    DType.F8E4M3: 0.2,
    DType.F8E5M2: 0.3,
}
"""The largest difference that passes, as a part of the largest expected number; 0 for integers."""


def run_program(
    program: Program, interpret: Interpret, inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The results of one program for tensors of its input types."""
    adapter = CpuAdapter()
    launch = adapter.compile(program, interpret)
    pairs = zip(inputs, program.inputs, strict=True)
    results = launch([adapter.stage(t, v.type.dtype) for t, v in pairs])
    # Beyond the outputs lies what checks give, which made-up inputs may fail.
    return tuple(adapter.to_torch(r) for r in results[: len(program.outputs)])


def difference(got: Tensor, expected: Tensor) -> float:
    """The largest difference over the largest finite expected number; NaN and inf must agree."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf")
    got, expected = got.to(torch.float64), expected.to(torch.float64)
    is_same = (got == expected) | (got.isnan() & expected.isnan())
    if is_same.all():
        return 0.0
    scale = expected[expected.isfinite()].abs().max().item() if expected.isfinite().any() else 1.0
    worst = (got - expected)[~is_same].abs()
    return float("inf") if not worst.isfinite().all() else worst.max().item() / (scale or 1.0)


def find_programs(folder: Path) -> list[Path]:
    """The programs of a dump. Raises ReplayError, with what to do, where there are none."""
    if not folder.is_dir():
        raise ReplayError(
            f"there is no folder {folder}. Write one with TPU_TILE_DEBUG=1; it goes to "
            "tpu_tile_debug, or to the option debug_dir"
        )
    files = sorted(folder.glob("4_program*.py"))
    if files:
        return files
    dumps = sorted(f.parent.name for f in folder.glob("*/0_fx.py"))
    if dumps:
        raise ReplayError(f"{folder} is a folder of dumps; replay one of them: {', '.join(dumps)}")
    fallbacks = folder / "fallbacks.txt"
    if fallbacks.exists():
        told = fallbacks.read_text().strip()
        raise ReplayError(f"{folder} holds no 4_program*.py, for none was made: {told}")
    raise ReplayError(f"{folder} holds no 4_program*.py; is it a folder of a dump?")


def replay(folder: Path, interpret: Interpret | None = None) -> bool:
    """Runs every program of a dump and prints one line a result; whether all agree."""
    files = find_programs(folder)
    all_agree = True
    for file in files:
        record = read_record(file)
        mode = record.interpret if interpret is None else interpret
        results = run_program(record.program, mode, record.inputs)
        for var, got, expected in zip(
            record.program.outputs, results, record.expected, strict=True
        ):
            worst = difference(got, expected)
            agrees = worst <= TOLERANCE.get(var.type.dtype, 0.0)
            all_agree &= agrees
            verdict = "ok" if agrees else "DIFFERS"
            print(f"{file.name}  {var} {var.type}  largest difference {worst:.1e}  {verdict}")
    return all_agree


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 0: all agree, 1: some result differs, 2: there is nothing to replay."""
    parser = argparse.ArgumentParser(prog="python -m tpu_inductor.debug.replay")
    parser.add_argument("folder", type=Path, help="one folder of a dump, tpu_tile_debug/0000_name")
    parser.add_argument("--tpu", action="store_true", help="interpret with the TPU's semantics")
    chosen = parser.parse_args(arguments)
    try:
        return 0 if replay(chosen.folder, "tpu" if chosen.tpu else None) else 1
    except ReplayError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
