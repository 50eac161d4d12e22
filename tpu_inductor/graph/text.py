"""The textual form of attributes, as dumps and error messages show them."""

from dataclasses import fields

from tpu_inductor.graph.attrs import Attrs, EagerCall
from tpu_inductor.graph.types import DType


def attrs_text(attrs: Attrs) -> str:
    """`; dims=(0, 1)`, or nothing for a primitive without attributes. Defaults are not told."""
    if isinstance(attrs, EagerCall):
        return f"; {attrs.target} because {attrs.reason}"
    values = {f.name: getattr(attrs, f.name) for f in fields(attrs)}
    told = [f.name for f in fields(attrs) if values[f.name] != f.default]
    parts = [f"{name}={_value_text(values[name])}" for name in told]
    return "; " + ", ".join(parts) if parts else ""


def _value_text(value: object) -> str:
    return value.short if isinstance(value, DType) else str(value)
