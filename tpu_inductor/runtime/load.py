"""From the text of a program to its function, in a module that tracebacks can show."""

import hashlib
import linecache
import traceback
import types
from collections.abc import Callable
from typing import Any

from tpu_inductor.errors import InvalidIR

ENTRY = "program"
"""The name of the function that every emitted module defines."""

FILE_PREFIX = "<tpu_tile "
"""How the file names of emitted modules start in tracebacks."""


def lines_of(error: BaseException) -> list[tuple[str, int]]:
    """The text and number of each line of printed modules in the stack of `error`, outermost first.

    JAX hangs the stack of the traced function on the cause of its lowering errors.
    """
    link: BaseException | None = error
    while link is not None:
        frames = traceback.extract_tb(link.__traceback__)
        found = [
            (f.line or "", f.lineno or 0) for f in frames if f.filename.startswith(FILE_PREFIX)
        ]
        if found:
            return found
        link = link.__cause__
    return []


def load_program(name: str, source: str, entry: str = ENTRY) -> Callable[..., Any]:
    """The function `entry` of `source`. Raises InvalidIR where the text does not define it."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    filename = f"{FILE_PREFIX}{name} {digest}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = types.ModuleType(f"tpu_tile_{name}_{digest}")
    module.__file__ = filename
    try:
        code = compile(source, filename, "exec")
    except SyntaxError as error:
        raise InvalidIR(f"program {name} is not valid Python: {error}") from error
    exec(code, module.__dict__)
    function = module.__dict__.get(entry)
    if not callable(function):
        raise InvalidIR(f"program {name} defines no function {entry!r}")
    return function
