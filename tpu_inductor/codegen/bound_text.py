"""How kernels spell bounds of loops that depend on where a block lies in the grid."""

from tpu_inductor.codegen.body import Body
from tpu_inductor.schedule.bound import Bound, Chunks, Extreme


def bound_text(body: Body, bound: Bound) -> str:
    """The expression of a bound, a 32-bit integer."""
    if isinstance(bound, Extreme):
        first, *others = (bound_text(body, arg) for arg in bound.args)
        for other in others:
            first = f"jnp.{bound.prim}imum({first}, {other})"
        return first
    if isinstance(bound, Chunks):
        inner = bound_text(body, bound.bound)
        inner = f"{inner} + {bound.rounding}" if bound.rounding else inner
        return f"jnp.minimum(lax.div(jnp.maximum({inner}, 0), {bound.size}), {bound.most})"
    parts = [_position_text(body, axis, factor) for axis, factor in bound.terms]
    if bound.offset or not parts:
        parts.append(str(bound.offset))
    return " + ".join(part for part in parts if part)


def _position_text(body: Body, axis: str, factor: int) -> str:
    if axis not in body.pids:
        return ""
    scale = body.schedule.axis(axis).tile * factor
    return body.pids[axis] if scale == 1 else f"{body.pids[axis]} * {scale}"
