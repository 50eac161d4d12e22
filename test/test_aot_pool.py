"""Compile workers: replies in order, and what becomes of aborts, hangs and errors."""

from pathlib import Path

import pytest

from tpu_inductor.aot.messages import CompileRequest
from tpu_inductor.aot.pool import CompilerPool

pytestmark = pytest.mark.aot

KERNEL = """
import os, sys, time

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def twice_kernel(x_ref, y_ref):
    x = x_ref[...]
    y = {body}
    y_ref[...] = y


def twice(x, *, interpret=False):
    return pl.pallas_call(
        twice_kernel, out_shape=jax.ShapeDtypeStruct({shape}, jnp.float32), interpret=interpret
    )(x)


def program(x, *, interpret=False):
    return (twice(x, interpret=interpret) + 1,)
"""

ABORTS = "jax.scipy.special.erfinv(x)"
"""Mosaic fails an internal check at it and aborts the process."""


def request(name, body="x * 2", shape=(8, 128), **settings):
    source = KERNEL.format(body=body, shape=shape)
    return CompileRequest(name, source, (((8, 128), "float32"),), "v5e", **settings)


def say(expression):
    """A request whose error is the value of an expression in the worker."""
    return request("say", f"exec('raise ValueError({expression})')")


def told(pool, *expressions):
    return [reply.result.error for reply in pool.run(map(say, expressions))]


@pytest.fixture(scope="module")
def pool():
    with CompilerPool(1) as pool:
        yield pool


def test_replies_come_in_order_with_sizes_and_prices():
    names = ["a", "b", "c", "d"]
    done = []
    with CompilerPool(2) as pool:
        requests = [request(n, f"x + {i}") for i, n in enumerate(names)]
        replies = list(pool.run(requests, lambda n, total: done.append((n, total))))
    assert done == [(n, 4) for n in range(5)]
    assert [r.result.name for r in replies] == names
    for reply in replies:
        assert reply.result.ok, reply.result.error
        assert reply.result.argument_bytes == 8 * 128 * 4
        assert reply.result.vmem_bytes >= 8 * 128 * 4
        assert reply.price.time_us > 0
        assert reply.price.hbm_bytes >= 2 * 8 * 128 * 4
        assert 0 < reply.seconds < 60


def test_a_request_tells_whether_types_are_64_bit(pool):
    body = "exec('raise ValueError(jnp.arange(4).dtype)')"
    wide, narrow = pool.run([request("wide", body), request("narrow", body, has_64_bit=False)])
    assert ("int64" in wide.result.error, "int32" in narrow.result.error) == (True, True)


def test_a_program_is_priced_cold_and_warm_at_once(pool):
    cold, both = pool.run([request("cold"), request("both", is_warm=True)])
    assert cold.warm is None
    assert both.price == cold.price
    assert 0 < both.warm.time_us <= both.price.time_us


def test_one_kernel_of_a_module_compiles_alone(pool):
    whole, kernel, unpriced = pool.run(
        [request("whole"), request("alone", entry="twice"), request("free", is_priced=False)]
    )
    assert kernel.result.ok
    assert kernel.result.code_bytes < whole.result.code_bytes
    assert (unpriced.result.ok, unpriced.price) == (True, None)


def test_a_refused_program_is_an_error_with_its_line(pool):
    (reply,) = pool.run([request("cast", "jnp.reshape(x, (1024, 1))", (1024, 1))])
    assert "unsupported shape cast" in reply.result.error
    line = KERNEL.splitlines()[reply.result.error_line - 1]
    assert line.strip() == "y = {body}"


def test_a_python_error_in_a_program_is_an_error_with_its_line(pool):
    (reply,) = pool.run([request("typo", "jnp.no_such_function(x)")])
    assert "no_such_function" in reply.result.error
    assert KERNEL.splitlines()[reply.result.error_line - 1].strip() == "y = {body}"


def test_an_abort_of_the_compiler_is_an_error_and_the_next_request_works(pool):
    dead, alive = pool.run([request("dead", ABORTS), request("alive")])
    assert "the compiler aborted with SIGABRT: Check failed" in dead.result.error
    assert alive.result.ok
    assert alive.price is not None


def test_a_worker_that_exits_leaves_its_last_words(pool):
    script = "os.write(2, b'first\\nlast words\\n') and os._exit(3)"
    dead, alive = pool.run([request("dead", script), request("alive")])
    assert "exit status 3" in dead.result.error
    assert dead.result.error.endswith("last words")
    assert alive.result.ok


def test_a_request_that_takes_too_long_is_stopped():
    with CompilerPool(1, timeout_s=4) as pool:
        slow, alive = pool.run([request("slow", "time.sleep(600)"), request("alive")])
    assert "stopped after 4 s" in slow.result.error
    assert alive.result.ok, alive.result.error


def test_a_worker_is_kept_and_imports_no_torch(pool):
    first, second, torch = told(pool, "os.getpid()", "os.getpid()", '"torch" in sys.modules')
    assert first == second
    assert torch == "False"


def test_leaving_early_stops_the_work_and_later_runs_get_their_own_replies(pool):
    for _ in pool.run([request("one"), request("slow", "time.sleep(600)")]):
        break
    assert [r.result.name for r in pool.run([request("two")])] == ["two"]


def test_no_folder_is_left_behind():
    with CompilerPool(1) as pool:
        (folder,) = told(pool, "sys.argv[2]")
        assert Path(folder).is_dir()
    assert not Path(folder).exists()
    assert list(pool.run([])) == []
