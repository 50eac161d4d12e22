"""A process that compiles kernels for chips that are not here, and prints their prices as JSON.

libtpu reads where to dump when it is loaded, so this is no part of the tests' own process.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tpu_inductor.aot.compile import compile_function
from tpu_inductor.aot.price import price_dump
from tpu_inductor.options import prepare_libtpu
from tpu_inductor.target import TARGETS

ROWS, COLUMNS, EDGE = 2048, 512, 1024
F32 = jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32)
BF16 = jax.ShapeDtypeStruct((EDGE, EDGE), jnp.bfloat16)


def copy(tile):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = pl.BlockSpec((tile, COLUMNS), lambda i: (i, jnp.int32(0)))
    call = pl.pallas_call(
        kernel, out_shape=F32, grid=(ROWS // tile,), in_specs=[block], out_specs=block
    )
    return (lambda x: (call(x),)), [F32]


def gather():
    """Which rows are read, and so whether they are fetched again, is data."""

    def kernel(rows_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(8,),
        in_specs=[pl.BlockSpec((8, COLUMNS), lambda i, rows: (rows[i], jnp.int32(0)))],
        out_specs=pl.BlockSpec((8, COLUMNS), lambda i, rows: (i, jnp.int32(0))),
    )
    out = jax.ShapeDtypeStruct((64, COLUMNS), jnp.float32)
    call = pl.pallas_call(kernel, out_shape=out, grid_spec=spec)
    return (lambda rows, x: (call(rows, x),)), [jax.ShapeDtypeStruct((8,), jnp.int32), F32]


def matmul():
    return (lambda x, y: (x @ y,)), [BF16, BF16]


CASES = {
    "copy 256": (copy(256), "v5e"),
    "copy 256 megacore": (copy(256), "v5p"),
    "copy 16": (copy(16), "v5e"),
    "gather": (gather(), "v5e"),
    "matmul v5e": (matmul(), "v5e"),
    "matmul v6e": (matmul(), "v6e"),
}


def price(case, folder):
    (fn, args), chip = CASES[case]
    for file in folder.iterdir():
        file.unlink()
    result = compile_function(fn, args, TARGETS[chip], "priced")
    assert result.ok, result.error
    found = price_dump(folder, TARGETS[chip])
    assert found == price_dump(folder, TARGETS[chip])
    assert found.time_us >= price_dump(folder, TARGETS[chip], warm=True).time_us
    return asdict(found) | {"trusted": found.trusted}


if __name__ == "__main__":
    dump = Path(sys.argv[1])
    prepare_libtpu(dump_to=dump)
    print(json.dumps({case: price(case, dump) for case in CASES}))
