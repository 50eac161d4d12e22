"""The textual form of a schedule, as dumps and `explain` show it."""

from tpu_inductor.schedule.types import Form, Operand, TileSchedule


def schedule_text(schedule: TileSchedule) -> str:
    """One schedule: axes, arrays with their blocks, memory, and why."""
    cost = schedule.cost
    lines = [f"schedule {schedule.region.name}  template={schedule.template}"]
    lines += [f"  axis   {axis}" for axis in schedule.axes]
    lines += [f"  grid   {' '.join(schedule.grid) or 'one step'}"]
    lines += [f"  in     {_operand_text(schedule, o)}" for o in schedule.inputs]
    lines += [f"  out    {_operand_text(schedule, o)}" for o in schedule.outputs]
    for acc in schedule.accumulators:
        of = schedule.eqns[acc.eqn].outputs[0]
        lines.append(f"  acc    {of} {acc.dtype.short}{list(acc.shape)}")
    lines += [
        f"  vmem   {schedule.vmem_bytes >> 10} KiB, limit {schedule.vmem_limit_bytes >> 10} KiB",
        f"  cost   {cost.time_us:.1f} us estimated, {cost.flops} flops, {cost.hbm_bytes} bytes",
        f"  why    {schedule.reason}",
    ]
    lines += [f"  not    {text}" for text in schedule.rejected]
    return "\n".join(lines) + "\n"


def _operand_text(schedule: TileSchedule, operand: Operand) -> str:
    block = ", ".join("-" if n is None else str(n) for n in schedule.block(operand))
    index = ", ".join(schedule.index(operand))
    moved = f" permuted {operand.perm}" if operand.perm != tuple(range(len(operand.perm))) else ""
    form = f" as a {operand.form.value}" if operand.form in (Form.WHOLE_VECTOR, Form.ROW) else ""
    return f"{operand.var.name} {operand.var.type} block ({block}) index ({index}){form}{moved}"
