"""The tests' environment: the CPU, one thread, and a libtpu that compiles for chips it has not."""

import os

# Before jax is imported: afterwards it is not read any more.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import pytest
import torch
from hypothesis import settings

from tpu_inductor.options import prepare_libtpu

prepare_libtpu(os.environ)

# CI draws the same examples every time; `--hypothesis-profile=long` looks for new ones.
settings.register_profile("ci", max_examples=40, derandomize=True, deadline=None)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Parallel test workers do not starve each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    """No compiled code and no seed leaks from one test into the next."""
    torch._dynamo.reset()
    torch.manual_seed(0)
