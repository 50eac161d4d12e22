"""Attention on TPUs that are not here: our kernels and JAX's flash attention, estimated.

python benchmarks/attention.py --chips v5e,v6e --lengths 4096 [--backward] [--json attention.json]

Microseconds of the Pallas kernels for 32 heads of width 128 in bfloat16; 4 heads are compiled.
JAX's kernel (jax.experimental.pallas.ops.tpu.flash_attention) gets the best of three square blocks.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from stages import trace
from torch._subclasses.fake_tensor import FakeTensorMode

from tpu_inductor.aot.messages import CompileReply, CompileRequest, argument_of
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import Reject
from tpu_inductor.options import Options
from tpu_inductor.pipeline import lower_graph

HEADS, SHOWN, WIDTH = 4, 32, 128
BLOCKS = (512, 1024, 2048)

aten = torch.ops.aten
forward = aten._scaled_dot_product_flash_attention_for_cpu.default
backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default

JAX_FLASH = """
import jax
from jax.experimental.pallas.ops.tpu.flash_attention import BlockSizes, flash_attention


def program(q, k, v, *, interpret=False):
    sizes = BlockSizes(block_q={block}, block_k_major={block}, block_k={block}, block_b=1)
    return (flash_attention(q, k, v, causal={causal}, sm_scale={scale}, block_sizes=sizes),)
"""


@dataclass(frozen=True)
class Case:
    """One question to the clock; `side` is whose code."""

    side: str
    chip: str
    length: int
    causal: bool
    request: CompileRequest


def cases(chips: list[str], lengths: list[int], *, with_backward: bool) -> Iterator[Case]:
    for chip in chips:
        for length in lengths:
            for causal in (False, True):
                yield Case("forward", chip, length, causal, ours(chip, length, causal, attend))
                if with_backward:
                    request = ours(chip, length, causal, differentiate)
                    yield Case("backward", chip, length, causal, request)
                for block in BLOCKS:
                    request = jax_flash(chip, length, causal, block)
                    yield Case("JAX's forward", chip, length, causal, request)


def attend(length: int, causal: bool) -> tuple[Callable[..., object], tuple[torch.Tensor, ...]]:
    return lambda q, k, v: forward(q, k, v, 0.0, causal)[0], _tensors(length, 3)


def differentiate(
    length: int, causal: bool
) -> tuple[Callable[..., object], tuple[torch.Tensor, ...]]:
    """Of the gradient, q, k, v, the output and the log-sum-exp."""

    def function(*xs: torch.Tensor) -> object:
        return backward(*xs, 0.0, causal)

    return function, (*_tensors(length, 5), torch.empty(1, HEADS, length))


def _tensors(length: int, count: int) -> tuple[torch.Tensor, ...]:
    shape = (1, HEADS, length, WIDTH)
    return tuple(torch.empty(shape, dtype=torch.bfloat16) for _ in range(count))


def ours(
    chip: str,
    length: int,
    causal: bool,
    make: Callable[[int, bool], tuple[Callable[..., object], tuple[torch.Tensor, ...]]],
) -> CompileRequest:
    with FakeTensorMode(allow_non_fake_inputs=True):
        function, tensors = make(length, causal)
        module = trace(function, tensors)
        lowered = lower_graph(module, "attention", {}, Options(target=chip), lambda _a, _b: None)
    assert not isinstance(lowered, Reject)
    (program,) = lowered.plan.steps
    assert isinstance(program, Program)
    arguments = tuple(argument_of(v) for v in program.inputs)
    return CompileRequest("attention", program.source, arguments, chip)


def jax_flash(chip: str, length: int, causal: bool, block: int) -> CompileRequest:
    source = JAX_FLASH.format(
        block=min(block, length),
        causal=causal,
        scale=WIDTH**-0.5,
    )
    argument = ((1, HEADS, length, WIDTH), "bfloat16")
    return CompileRequest(f"flash {block}", source, (argument,) * 3, chip, has_64_bit=False)


def kernel_us(reply: CompileReply) -> float | None:
    """Microseconds of the Pallas kernels of a program, for all heads."""
    price = reply.price
    if price is None:
        return None
    other = ("copy", "reduce", "fusion", "bitcast", "top level")
    cycles = sum(o.cycles + o.stall_cycles for o in price.ops if not _is_any(o.name, other))
    return cycles / price.clock_mhz * SHOWN / HEADS


def _is_any(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", default="v5e,v6e")
    parser.add_argument("--lengths", default="4096")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    lengths = [int(n) for n in args.lengths.split(",")]
    asked = list(cases(args.chips.split(","), lengths, with_backward=args.backward))
    found: dict[tuple[str, int, bool], dict[str, float]] = {}
    with CompilerPool(1, 600) as pool:
        replies = pool.run([case.request for case in asked])
        for case, reply in zip(asked, track(replies, total=len(asked)), strict=True):
            us = kernel_us(reply)
            row = found.setdefault((case.chip, case.length, case.causal), {})
            if us is not None:
                row[case.side] = min(us, row.get(case.side, us))
    _show(found)
    if args.json:
        names = ("chip", "length", "causal")
        rows = [dict(zip(names, key, strict=True)) | row for key, row in found.items()]
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def _show(found: dict[tuple[str, int, bool], dict[str, float]]) -> None:
    sides = ("forward", "JAX's forward", "backward")
    table = Table("chip", "length", "mask", *sides, "JAX's / ours", title="us, 32 heads, estimates")
    for (chip, length, causal), row in found.items():
        times = [f"{row[s]:.0f}" if s in row else "-" for s in sides]
        both = "forward" in row and "JAX's forward" in row
        ratio = f"{row[sides[1]] / row['forward']:.2f}" if both else "-"
        table.add_row(chip, str(length), "causal" if causal else "full", *times, ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
