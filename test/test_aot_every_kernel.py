"""Every kernel of the workloads and of small real models compiles for every TPU. Nothing runs.

By default a sample: every other model and workload, each for one chip and, a model, in one type;
`-m slow` is all the rest. `-k v6e` is one chip, `-k llama` one model. Models come from
`shared/tools/models.py` beside the checkout: where it is absent, their tests are skipped with that
reason, and fail in CI. Kernels are those of prefer="pallas", which are those of the default and
what a user may force besides.
"""

import functools
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from every_kernel import KERNEL_S, OnceCompiler, kernel_requests, tell_failures, trace
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from workloads import WORKLOADS

from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.target import TARGETS

MODELS_FILE = Path(__file__).resolve().parents[2] / "shared" / "tools" / "models.py"

CHIPS = [t.name for t in TARGETS.values() if t.is_tpu]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

LARGE = ("matmul", "qkv", "mlp", "block", "adamw")
"""Parts of the names of workloads that take the compiler long."""


def load_models(file: Path) -> dict[str, Any]:
    """Functions that make (module, args, kwargs), by name; none where the file is absent."""
    if not file.exists():
        return {}
    spec = importlib.util.spec_from_file_location("small_models", file)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MODELS


MODELS = load_models(MODELS_FILE)


def case(*values: str, is_sampled: bool):
    return pytest.param(*values, id="-".join(values), marks=() if is_sampled else pytest.mark.slow)


def model_cases():
    if not MODELS:
        return [case("none", "f32", "v4", is_sampled=True)]
    sampled = {
        (name, list(DTYPES)[i % 2], CHIPS[i % len(CHIPS)]) for i, name in enumerate([*MODELS][::2])
    }
    every = [(name, dtype, chip) for name in MODELS for dtype in DTYPES for chip in CHIPS]
    return [case(*values, is_sampled=values in sampled) for values in every]


def workload_cases():
    small = [name for name in WORKLOADS if not any(part in name for part in LARGE)]
    sampled = {(name, CHIPS[i % len(CHIPS)]) for i, name in enumerate(small[::2])}
    every = [(name, chip) for name in WORKLOADS for chip in CHIPS]
    return [case(*values, is_sampled=values in sampled) for values in every]


def cast(value: Any, dtype: torch.dtype) -> Any:
    """Every float32 tensor of a structure in `dtype`."""

    def one(leaf: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32
        return leaf.to(dtype) if is_float else leaf

    return pytree.tree_map(one, value)


def trace_model(name: str, dtype: str):
    torch.manual_seed(0)
    model, *inputs = MODELS[name]()
    # Without data: torch has no kernel for some models in bfloat16 on some processors.
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    args, kwargs = pytree.tree_map_only(torch.Tensor, fake.from_tensor, cast(inputs, DTYPES[dtype]))
    with fake:
        return trace(model.eval().to(DTYPES[dtype]), *args, **kwargs)


def trace_workload(name: str):
    workload = WORKLOADS[name]
    with FakeTensorMode(allow_non_fake_inputs=True):
        return trace(workload.function, *[spec.empty() for spec in workload.specs])


@pytest.fixture(scope="module")
def compiler():
    """What all tests of one process share, so that equal kernels are compiled once."""
    with CompilerPool(1, KERNEL_S) as pool:
        yield OnceCompiler(pool)


@pytest.fixture(scope="module")
def traced_model():
    """Neighbouring tests are of one model: it is traced once for all chips."""
    if not MODELS:
        # CI must not pass without them.
        give_up = pytest.fail if "CI" in os.environ else pytest.skip
        give_up(f"there are no models to compile: {MODELS_FILE} is absent")
    return functools.lru_cache(maxsize=1)(trace_model)


@pytest.fixture(scope="module")
def traced_workload():
    return functools.lru_cache(maxsize=1)(trace_workload)


@pytest.mark.aot
@pytest.mark.parametrize(("name", "dtype", "chip"), model_cases())
def test_every_kernel_of_a_model_compiles(name, dtype, chip, traced_model, compiler):
    requests = kernel_requests(traced_model(name, dtype), chip, "pallas")
    assert requests
    assert not tell_failures(compiler.compile(requests))


@pytest.mark.aot
@pytest.mark.parametrize(("name", "chip"), workload_cases())
def test_every_kernel_of_a_workload_compiles(name, chip, traced_workload, compiler):
    requests = kernel_requests(traced_workload(name), chip, "pallas")
    assert not tell_failures(compiler.compile(requests))


@pytest.mark.parametrize("name", ["cross_entropy_32k_grad", "swiglu_mlp", "top_p"])
@pytest.mark.parametrize("chip", ["v4", "v6e"])
def test_what_may_be_forced_includes_what_is_chosen(name, chip, traced_workload):
    forced, chosen = (
        kernel_requests(traced_workload(name), chip, prefer) for prefer in ("pallas", "auto")
    )
    assert forced
    assert forced.keys() >= chosen.keys()
