"""What compiling for a TPU needs: libtpu, and a target that is one."""

import importlib.metadata
import importlib.util

from tpu_inductor.errors import Unsupported
from tpu_inductor.target import TARGETS, TpuTarget, target


def require_libtpu() -> None:
    """Raises Unsupported, saying what to install, where libtpu is missing."""
    if importlib.util.find_spec("libtpu") is None:
        version = importlib.metadata.version("jax")
        raise Unsupported(
            "libtpu, the compiler for TPUs, is not installed, so nothing can be compiled for one. "
            f'Install it: pip install "jax[tpu]=={version}"'
        )


def tpu_target(name: str) -> TpuTarget:
    """The TPU called `name`. Raises Unsupported for an unknown one, and for the CPU."""
    valid = ", ".join(t.name for t in TARGETS.values() if t.is_tpu)
    if name not in TARGETS:
        raise Unsupported(f"unknown target {name!r}. Valid targets: {valid}")
    if not target(name).is_tpu:
        raise Unsupported(
            f"target {name!r} is no TPU: programs for it are compiled when they first run, by "
            f"torch.compile. Valid targets: {valid}"
        )
    return target(name)
