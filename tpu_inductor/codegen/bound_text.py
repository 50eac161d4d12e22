"""How kernels spell bounds of loops that depend on where a block lies in the grid.

seen = jnp.minimum(lax.div(jnp.maximum(m_id * 512 + 1, 0), 1024), 4)
@pl.loop(0, seen)
"""

from tpu_inductor.codegen.body import Body
from tpu_inductor.schedule.bound import Bound, Chunks, Extreme, Line, Span, Strides


def span_text(body: Body, span: Span, stride: int, chunk: str) -> tuple[str, str]:
    """The ends of a loop over a span, and the number of the chunk that its variable stands for."""
    if stride == 1:
        return f"{_named(body, span.lo)}, {_named(body, span.hi)}", chunk
    lo = _named(body, span.lo)
    turns = f"lax.div(jnp.maximum({_less(_named(body, span.hi), lo)}, 0), {stride})"
    at = f"{chunk} * {stride}" if lo == "0" else f"({lo} + {chunk} * {stride})"
    return f"0, {turns}", at


def _less(hi: str, lo: str) -> str:
    return hi if lo == "0" else f"{hi} - {lo}"


def _named(body: Body, bound: Bound) -> str:
    """A bound by the name of a variable, unless it is a number."""
    if isinstance(bound, Line) and not bound.terms:
        return str(bound.offset)
    if bound not in body.bounds:
        text = _text(body, bound)
        body.bounds[bound] = body.names.unique("bound")
        body.lines.append(f"{body.bounds[bound]} = {text}")
    return body.bounds[bound]


def _text(body: Body, bound: Bound) -> str:
    if isinstance(bound, Extreme):
        first, *others = (_named(body, arg) for arg in bound.args)
        for other in others:
            first = f"jnp.{bound.prim}imum({first}, {other})"
        return first
    if isinstance(bound, Chunks):
        inner = _text(body, bound.bound)
        inner = f"{inner} + {bound.rounding}" if bound.rounding else inner
        return f"jnp.minimum(lax.div(jnp.maximum({inner}, 0), {bound.size}), {bound.most})"
    if isinstance(bound, Strides):
        lo, hi = _named(body, bound.lo), _named(body, bound.hi)
        strides = f"lax.div(jnp.maximum({_less(hi, lo)}, 0), {bound.stride}) * {bound.stride}"
        return strides if lo == "0" else f"{lo} + {strides}"
    parts = [_position_text(body, axis, factor) for axis, factor in bound.terms]
    if bound.offset or not parts:
        parts.append(str(bound.offset))
    return " + ".join(part for part in parts if part) or "0"


def _position_text(body: Body, axis: str, factor: int) -> str:
    if axis in body.starts:
        return body.starts[axis] if factor == 1 else f"{body.starts[axis]} * {factor}"
    if axis not in body.pids:
        return ""
    scale = body.schedule.axis(axis).tile * factor
    return body.pids[axis] if scale == 1 else f"{body.pids[axis]} * {scale}"
