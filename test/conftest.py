"""One thread for torch, so that parallel test workers do not starve each other."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    """No compiled code and no seed leaks from one test into the next."""
    torch._dynamo.reset()
    torch.manual_seed(0)
