"""Ahead-of-time compilation for TPUs that are not there, with libtpu.

`aot_compile(model, *args, target="v5e")` compiles every program and kernel of a model and returns a
`Report`. `CompilerPool` compiles single functions. All are loaded when they are first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpu_inductor.aot.pool import CompilerPool
    from tpu_inductor.reports.compile_model import aot_compile
    from tpu_inductor.reports.compile_report import Report

__all__ = ["CompilerPool", "Report", "aot_compile"]

_LAZY = {
    "CompilerPool": "tpu_inductor.aot.pool",
    "Report": "tpu_inductor.reports.compile_report",
    "aot_compile": "tpu_inductor.reports.compile_model",
}


def __getattr__(name: str) -> Any:
    """Loads torch and JAX at the first use of `aot_compile`, and not in compile workers."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
