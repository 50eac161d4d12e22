"""A process that compiles for TPUs: `python -m tpu_inductor.aot.worker HANDLE FOLDER`.

It answers each `CompileRequest` that arrives at the connection HANDLE, until its other end closes.
libtpu writes the bundles from which times are estimated to FOLDER/dump, which is emptied before
each compilation. `aot.pool` starts it, with the environment of
`options.compiler_environment`, and outlives it: some programs make libtpu abort.
"""

import gc
import shutil
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import jax

from tpu_inductor.aot.compile import compile_function, struct_of
from tpu_inductor.aot.messages import DUMP, CompileReply, CompileRequest
from tpu_inductor.aot.price import Price, price_dump
from tpu_inductor.errors import DumpError
from tpu_inductor.runtime.load import load_program
from tpu_inductor.target import target

KEPT_COMPILATIONS = 64
"""JAX keeps every function it ever traced; a worker forgets them all after this many."""


def compile_request(request: CompileRequest, dump: Path) -> CompileReply:
    """Compiles and prices one function. What the compiler refuses is a result, not an exception."""
    started = time.perf_counter()
    chip = target(request.target)
    for file in dump.iterdir():
        file.unlink()
    function = load_program(request.name, request.source, request.entry)
    args = [struct_of(argument) for argument in request.arguments]
    vmem, wide = request.scoped_vmem_kib, request.has_64_bit
    result = compile_function(function, args, chip, request.name, vmem, has_64_bit=wide)
    price: Price | None = None
    warm: Price | None = None
    unpriced = ""
    if result.ok and request.is_priced:
        try:
            price = price_dump(dump, chip)
            warm = price_dump(dump, chip, warm=True) if request.is_warm else None
        except DumpError as error:
            unpriced = str(error)
    return CompileReply(result, price, time.perf_counter() - started, unpriced, warm)


def serve(connection: Connection, dump: Path) -> None:
    """Says None once, when ready; then answers requests in turn until the connection closes."""
    connection.send(None)
    done = 0
    while True:
        try:
            connection.send(compile_request(connection.recv(), dump))
        except (EOFError, BrokenPipeError):
            return
        done += 1
        if done % KEPT_COMPILATIONS == 0:
            jax.clear_caches()
            gc.collect()


def main(arguments: Sequence[str]) -> None:
    """The command line: the number of an inherited socket, and the folder of this process."""
    handle, folder = arguments
    with Connection(int(handle)) as connection:
        serve(connection, Path(folder) / DUMP)
    # Whoever started this may have died without cleaning up.
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
