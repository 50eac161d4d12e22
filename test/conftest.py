"""The tests' environment: the CPU, one thread, and a libtpu that compiles for chips it has not."""

import os

# Before jax is imported: afterwards these are not read any more.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Parallel test workers do not starve each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    """No compiled code and no seed leaks from one test into the next."""
    torch._dynamo.reset()
    torch.manual_seed(0)
