"""Turns the scalar half of a program's bundles into Python functions, one per basic block.

    def block3(r, m):  # registers and machine.Machine --> the next block, -1 at the end
        m.time += 2
        m.wait(r[2], 32768)
        r[5], r[6] = (wrap(r[1] + 1)), (r[5] < 8)
        m.time += 41
        return 1 if m.takes(r[7]) else 4

Only values that reach a branch, a DMA, a wait or SMEM are computed. `machine` runs the blocks.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tpu_inductor.aot.bundles import Instruction, Listing
from tpu_inductor.aot.interlocks import find_interlocks
from tpu_inductor.aot.registers import Registers
from tpu_inductor.aot.scalar import SCALAR_NAMES
from tpu_inductor.aot.statements import Statements
from tpu_inductor.aot.timing import ChipTiming

_TARGET = re.compile(r"\$region(\d+)")


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """`run(registers, machine)` gives the next block. One run takes `cycles`, stalls included.

    Of these the hardware holds the core back for `interlock_cycles`; each MXU is busy for
    `mxu_cycles` on average. Waits for DMAs are not among them.
    """

    run: Callable[[list[Any], Any], int]
    cycles: float
    interlock_cycles: float
    mxu_cycles: float


@dataclass(frozen=True, slots=True)
class BasicBlocks:
    """A program that the machine can run, from its first block on."""

    blocks: tuple[BasicBlock, ...]
    registers: int


@dataclass(frozen=True, slots=True)
class _Flow:
    """Where blocks begin and end: `spans` of bundles, and blocks `starting` at a bundle.

    The branch in a bundle goes to its bundle in `targets`; the block that ends after a bundle in
    `branches` leaves by that branch, whose delay slots have run.
    """

    spans: tuple[tuple[int, int], ...]
    starting: dict[int, int]
    targets: dict[int, int]
    branches: dict[int, int]

    def block_at(self, bundle: int) -> int:
        """The block that begins at `bundle`, -1 at the end of the program."""
        return self.starting.get(bundle, -1)


def _find_flow(listing: Listing, delay_slots: int) -> _Flow:
    bundles = listing.bundles
    targets: dict[int, int] = {}
    for at, bundle in enumerate(bundles):
        for branch in (i for i in bundle if i.op.startswith("sbr")):
            region = _TARGET.search(branch.operands)
            targets[at] = listing.regions.get(int(region[1]) if region else -1, len(bundles))
    branches = {at + delay_slots: at for at in targets}
    leaders = {0, *targets.values(), *(last + 1 for last in branches)}
    starts = sorted(leader for leader in leaders if leader < len(bundles))
    spans = tuple(zip(starts, [*starts[1:], len(bundles)], strict=True))
    starting = {start: block for block, start in enumerate(starts)}
    return _Flow(spans, starting, targets, branches)


def build_basic_blocks(listing: Listing, program: int, timing: ChipTiming) -> BasicBlocks:
    """The basic blocks of `listing`. `program` numbers it among those of one machine."""
    flow, registers = _find_flow(listing, timing.delay_slots), Registers(listing.bundles)
    statements = Statements(program, registers.place)
    sources: list[str] = []
    costs: list[tuple[float, float, float]] = []
    for k, (first, end) in enumerate(flow.spans):
        bundles = listing.bundles[first:end]
        locks = find_interlocks(bundles, timing)
        body, rest = _print_bundles(bundles, first, registers, statements)
        body.append(f"m.time+={rest + locks.stall_cycles}")
        body.append(f"return {_print_exit(flow, end, registers)}")
        sources.append(f"def block{k}(r,m):\n " + "\n ".join(body))
        costs.append((end - first + locks.stall_cycles, locks.stall_cycles, locks.mxu_cycles))
    names = dict(SCALAR_NAMES)
    exec("\n".join(sources), names)
    runs: list[Any] = [names[f"block{k}"] for k in range(len(sources))]
    blocks = tuple(BasicBlock(run, *cost) for run, cost in zip(runs, costs, strict=True))
    return BasicBlocks(blocks, len(registers))


def _print_bundles(
    bundles: Sequence[Sequence[Instruction]],
    first: int,
    registers: Registers,
    statements: Statements,
) -> tuple[list[str], int]:
    """The statements of `bundles`, and how many of these the clock has not passed yet."""
    body: list[str] = []
    passed = 0
    for at, bundle in enumerate(bundles):
        branch = registers.place(_branch(first + at)) if _has_branch(bundle) else ""
        effects = [effect for i in bundle if (effect := statements.effect(i, branch))]
        if effects:
            body += [f"m.time+={at - passed}", *effects]
            passed = at
        # All operands are read before any result is written.
        moves = [statements.move(i) for i in bundle if _is_move(i, registers)]
        if moves:
            targets, values = zip(*moves, strict=True)
            body.append(f"{','.join(targets)}={','.join(values)}")
    return body, len(bundles) - passed


def _print_exit(flow: _Flow, end: int, registers: Registers) -> str:
    follower, branch = flow.block_at(end), flow.branches.get(end - 1)
    if branch is None:
        return str(follower)
    target, condition = flow.block_at(flow.targets[branch]), registers.place(_branch(branch))
    return f"{target} if m.takes({condition}) else {follower}"


def _branch(at: int) -> str:
    """The name of the value by which the branch in bundle `at` is decided."""
    return f"branch {at}"


def _has_branch(bundle: Sequence[Instruction]) -> bool:
    return any(i.op.startswith("sbr") for i in bundle)


def _is_move(instruction: Instruction, registers: Registers) -> bool:
    if instruction.op == "sphi" or not instruction.result:
        return False
    return registers.is_live(instruction.result)
