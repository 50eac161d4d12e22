"""Prices JAX functions in compile workers, and keeps on disk what XLA alone makes of them.

A price of XLA's code depends on the function, the chip, JAX, libtpu and the rules of pricing. Equal
ones have equal keys, so only what changed is compiled again. What is ours is never kept.
"""

import ast
import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
from figures import Figure

from tpu_inductor import aot
from tpu_inductor.aot.compile import struct_of
from tpu_inductor.aot.messages import CompileRequest
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.aot.timing import TIMINGS
from tpu_inductor.runtime.load import load_program

RULES = (
    "basic_blocks",
    "bundles",
    "dump",
    "interlocks",
    "machine",
    "price",
    "registers",
    "scalar",
    "statements",
    "timing",
)
"""Modules of `tpu_inductor.aot` that decide what a dump is priced at."""


@dataclass(frozen=True, slots=True)
class Job:
    """A function to be priced. One without kernels of ours is XLA's alone."""

    request: CompileRequest
    is_xla_only: bool

    @property
    def key(self) -> str:
        """Equal for functions that trace to the same equations, on one chip and compiler."""
        r = self.request
        compiler = (r.target, str(r.scoped_vmem_kib), *versions("jax", "libtpu").values())
        function = load_program(r.name, r.source, r.entry)
        with jax.enable_x64(r.has_64_bit):
            jaxpr = jax.make_jaxpr(function)(*map(struct_of, r.arguments))
        return digest(str(jaxpr), *compiler, rules_of(r.target))


class Pricer:
    """Prices jobs through `pool`. What is XLA's alone is priced once, and kept in `file` if given.

    Raises ValueError where the file holds something else.
    """

    def __init__(self, pool: CompilerPool, file: Path | None) -> None:
        self._pool = pool
        self._file = file
        self._kept: dict[str, Figure] = {}
        if file is not None and file.exists():
            self._kept = _read_figures(file)

    def price(self, jobs: Sequence[Job]) -> list[Figure]:
        """The figures of the jobs, in order."""
        keys = [job.key if job.is_xla_only else f"#{i}" for i, job in enumerate(jobs)]
        todo = {key: job for key, job in zip(keys, jobs, strict=True) if key not in self._kept}
        found = dict(self._kept)
        requests = [replace(job.request, is_warm=True) for job in todo.values()]
        for (key, job), reply in zip(todo.items(), self._pool.run(requests), strict=True):
            found[key] = Figure.of(reply, TIMINGS[job.request.target].cores)
            if job.is_xla_only and found[key].ok:
                self._keep(key, found[key])
        return [found[key] for key in keys]

    def _keep(self, key: str, figure: Figure) -> None:
        self._kept[key] = figure
        if self._file is not None:
            text = json.dumps({k: f.as_json() for k, f in self._kept.items()}, indent=1)
            # A run that is stopped while it writes loses nothing.
            part = self._file.with_suffix(".part")
            part.write_text(text + "\n")
            part.replace(self._file)


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages."""
    return {name: importlib.metadata.version(name) for name in packages}


def _read_figures(file: Path) -> dict[str, Figure]:
    try:
        return {key: Figure(**values) for key, values in json.loads(file.read_text()).items()}
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{file} holds no prices: {error}. Delete it") from error


def rules_of(chip: str) -> str:
    """A digest of the rules and of the chip's own timing: another chip's changes nothing here."""
    return digest(_rules_text(), repr(TIMINGS[chip]))


@functools.cache
def _rules_text() -> str:
    """The code of the rules, without comments, docstrings and the timings of chips."""
    folder = Path(aot.__file__).parent
    return "".join(_code(ast.parse((folder / f"{name}.py").read_text())) for name in RULES)


def _code(tree: ast.AST) -> str:
    for node in ast.walk(tree):
        body: Any = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [n for n in body if not _is_left_out(n)]  # pyright: ignore
    return ast.dump(tree)


def _is_left_out(node: ast.AST) -> bool:
    is_table = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TIMINGS"
    return is_table or _is_text(node)


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(node.value.value, str)  # pyright: ignore


def digest(*texts: str) -> str:
    """A key that is equal for equal texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
