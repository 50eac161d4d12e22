"""Lowerings of ATen operators to primitives; importing this package fills the table."""

from tpu_inductor.lowerings import (
    activation,
    arithmetic,
    attention,
    batch_norm,
    bitwise,
    comparison,
    conversion,
    create,
    elementary,
    embedding,
    indexing,
    loss,
    matmul,
    moments,
    norm,
    pad,
    reduction,
    scan,
    scatter,
    scatter_reduce,
    slice,
    softmax,
    sort,
    view,
)
from tpu_inductor.lowerings.registry import LOWERINGS

MODULES = (
    activation,
    arithmetic,
    attention,
    batch_norm,
    bitwise,
    comparison,
    conversion,
    create,
    elementary,
    embedding,
    indexing,
    loss,
    matmul,
    moments,
    norm,
    pad,
    reduction,
    scan,
    scatter,
    scatter_reduce,
    slice,
    softmax,
    sort,
    view,
)
"""The modules that register lowerings. A module that is not listed here does not count."""

__all__ = ["LOWERINGS", "MODULES"]
