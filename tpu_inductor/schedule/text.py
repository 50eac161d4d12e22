"""The textual form of a schedule, as dumps and `explain` show it."""

from tpu_inductor.schedule.arrays import Form, Operand
from tpu_inductor.schedule.nest import (
    Carry,
    Compute,
    Fold,
    How,
    Interleave,
    Keep,
    Lanes,
    Load,
    Loop,
    Nest,
    Node,
    Take,
)
from tpu_inductor.schedule.types import TileSchedule


def schedule_text(schedule: TileSchedule) -> str:
    """One schedule: axes, arrays with their blocks, the nest, memory, and why."""
    cost = schedule.cost
    lines = [f"schedule {schedule.region.name}  template={schedule.template}"]
    lines += [f"  axis   {axis_text(schedule, a.name)}" for a in schedule.axes]
    lines += [f"  in     {_operand_text(schedule, o)}" for o in schedule.inputs]
    lines += [f"  out    {_operand_text(schedule, o)}" for o in schedule.outputs]
    lines += [f"  nest   {line}" for line in nest_lines(schedule, schedule.nest)]
    lines += [
        f"  vmem   {schedule.vmem_bytes >> 10} KiB, limit {schedule.vmem_limit_bytes >> 10} KiB",
        f"  cost   {cost.time_us:.1f} us estimated, {cost.flops} flops, {cost.hbm_bytes} bytes",
        f"  why    {schedule.reason}",
    ]
    lines += [f"  not    {text}" for text in schedule.rejected]
    return "\n".join(lines) + "\n"


def axis_text(schedule: TileSchedule, name: str) -> str:
    """An axis and how the kernel goes over it: `m 4096 = 4 x 1024 parallel in chunks of 256`."""
    axis = schedule.axis(name)
    how = "whole" if axis.is_whole else "arbitrary" if name in schedule.folded else "parallel"
    text = f"{axis.name:8}{axis.size} = {axis.blocks} x {axis.tile}  {how}"
    text += f" in chunks of {axis.chunk}" if axis.chunk else ""
    return text + (" reduced" if axis.is_reduced else "")


def nest_lines(schedule: TileSchedule, nest: Nest) -> list[str]:
    """The tree, one node a line; what a node holds is indented."""
    return [line for node in nest for line in _node_lines(schedule, node)]


def _node_lines(schedule: TileSchedule, node: Node) -> list[str]:
    if isinstance(node, Loop):
        return [_loop_text(schedule, node), *_indented(nest_lines(schedule, node.body))]
    if isinstance(node, Interleave):
        places = " x ".join(f"{count} {name}" for name, count in node.axes)
        ahead = f", {node.ahead} nodes ahead" if node.ahead else ""
        inner = _indented(nest_lines(schedule, node.body))
        return [f"interleave {places}{ahead}", *inner]
    if isinstance(node, Fold):
        lines = [f"fold {' '.join(node.axes)}".rstrip()]
        lines += _indented([_carry_text(schedule, c) for c in node.carries])
        lines += ["  each", *_indented(_indented(nest_lines(schedule, node.each)))]
        return [*lines, "  last", *_indented(_indented(nest_lines(schedule, node.last)))]
    if isinstance(node, Compute):
        return [_compute_text(schedule, node)]
    if isinstance(node, Take):
        return [f"take {node.var} of {schedule.eqns[node.carry.eqn].out}"]
    if isinstance(node, Keep):
        return [f"keep {schedule.eqns[node.carry.eqn].out}"]
    word = "load" if isinstance(node, Load) else "store"
    return [f"{word} {node.operand.var} ({_order_text(node.operand.present)})"]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _loop_text(schedule: TileSchedule, loop: Loop) -> str:
    if loop.how is How.GRID:
        return f"grid {loop.axis}"
    axis = schedule.axis(loop.axis)
    together = f", {loop.unroll} turns together" if loop.unroll > 1 else ""
    return f"loop {loop.axis} {axis.turns // loop.stride} x {axis.extent * loop.stride}{together}"


def _carry_text(schedule: TileSchedule, carry: Carry) -> str:
    var = schedule.eqns[carry.eqn].outputs[0]
    lanes = "" if carry.lanes is Lanes.ONE else f" {carry.lanes.value} in lanes"
    return f"carry {var} {carry.dtype.short}{list(carry.shape)}{lanes}"


def _compute_text(schedule: TileSchedule, node: Compute) -> str:
    eqn = schedule.eqns[node.eqn]
    tails = f", within {' '.join(node.tails)}" if node.tails else ""
    operands = " ".join(map(str, eqn.inputs))
    results = ", ".join(map(str, eqn.outputs))
    return f"{results} = {eqn.prim} {operands} ({_order_text(node.order)}{tails})"


def _order_text(order: tuple[str, ...]) -> str:
    return " ".join(order)


def _operand_text(schedule: TileSchedule, operand: Operand) -> str:
    block = ", ".join("-" if n is None else str(n) for n in schedule.block(operand))
    index = ", ".join(schedule.index(operand))
    moved = f" permuted {operand.perm}" if operand.perm != tuple(range(len(operand.perm))) else ""
    form = f" as a {operand.form.value}" if operand.form in (Form.WHOLE_VECTOR, Form.ROW) else ""
    return f"{operand.var.name} {operand.var.type} block ({block}) index ({index}){form}{moved}"
