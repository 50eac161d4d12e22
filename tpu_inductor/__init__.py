"""tpu_inductor: a torch.compile backend that prints JAX Pallas kernels for TPUs.

`torch.compile(model, backend="tpu_tile")` finds the backend by itself; this module need not be
imported for it. What is public is named here, and loaded when it is first asked for.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from tpu_inductor.errors import InvalidIR, LaunchError, TpuInductorError, Unsupported

if TYPE_CHECKING:
    from tpu_inductor.reports.explain import Explanation, explain

__version__ = importlib.metadata.version("tpu_inductor")

__all__ = [
    "Explanation",
    "InvalidIR",
    "LaunchError",
    "TpuInductorError",
    "Unsupported",
    "__version__",
    "explain",
]

_LAZY = {
    "Explanation": "tpu_inductor.reports.explain",
    "explain": "tpu_inductor.reports.explain",
}


def __getattr__(name: str) -> Any:
    """Loads the compiler, and with it torch and JAX, at the first use of `explain`."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
