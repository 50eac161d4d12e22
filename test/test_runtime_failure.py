"""What JAX raises for a program, told as a failure of ours or of memory."""

import jax
import numpy as np
import pytest

from tpu_inductor.codegen.program import Program
from tpu_inductor.errors import InvalidIR, LaunchError
from tpu_inductor.runtime.adapters.cpu import CpuAdapter
from tpu_inductor.runtime.failure import explain_failure

SOURCE = """
def inner(x):
    return x.nonsense


def program(x, *, interpret=False):
    y = inner(x)  # aten.mul at model.py:7
    return (y,)
"""


def test_an_error_while_tracing_names_the_statement_and_a_way_around():
    launch = CpuAdapter().compile(Program("p", SOURCE, (), ()), True)
    with pytest.raises(InvalidIR, match=r"program p: .*nonsense.*aten.mul at model.py:7.*prefer"):
        launch([np.zeros(3, np.float32)])


def test_memory_that_runs_out_is_no_bug():
    error = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.")
    told = explain_failure(error, "p")
    assert isinstance(told, LaunchError)
    assert "program p ran out of memory" in str(told)
    assert "99 bytes" in str(told)
    assert "smaller inputs" in str(told)


def test_memory_that_xla_cannot_allocate_is_told():
    source = "import jax.numpy as jnp\n\n\ndef program(x, *, interpret=False):\n"
    source += "    return (jnp.broadcast_to(x, (1 << 24, 1 << 22)) + 1,)\n"
    launch = CpuAdapter().compile(Program("p", source, (), ()), True)
    with pytest.raises(LaunchError, match="ran out of memory"):
        launch([np.zeros(1 << 22, np.float32)])


def test_any_other_error_of_xla_is_a_bug():
    told = explain_failure(jax.errors.JaxRuntimeError("INTERNAL: oh"), "p")
    assert isinstance(told, InvalidIR)
    assert "INTERNAL: oh" in str(told)
