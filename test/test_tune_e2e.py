"""`mode="max-autotune"` for a TPU that is not there, from a model to its results."""

import logging

import pytest
import torch
from torch.nn import functional as F

import tpu_inductor
from tpu_inductor.aot.messages import CompileReply, DevicelessResult
from tpu_inductor.aot.pool import CompilerPool
from tpu_inductor.errors import Unsupported

MODE = "max-autotune"


class Block(torch.nn.Module):
    """A norm and a matmul with an epilogue: two kernels."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(128)
        self.linear = torch.nn.Linear(128, 256)

    def forward(self, x):
        return F.gelu(self.linear(self.norm(x)))


def explained(model, x, mode=MODE, **options):
    with torch.no_grad():
        return tpu_inductor.explain(model, x, mode=mode, options={"target": "v5e", **options})


@pytest.fixture
def no_pool(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("something is compiled")

    monkeypatch.setattr(CompilerPool, "run", refuse)


@pytest.mark.aot
def test_a_model_is_tuned_once_and_its_results_are_right(tmp_path, caplog, monkeypatch):
    model, x = Block().eval(), torch.randn(512, 128)
    with caplog.at_level(logging.INFO, "tpu_inductor"):
        found = explained(model, x, cache_dir=tmp_path)
    assert "programs compiled" in caplog.text
    tried = [r for r in found.regions if "estimated without a device" in str(r)]
    assert len(tried) == len(found.regions)
    assert len(list(tmp_path.rglob("*.json"))) >= 2

    def refuse(*args, **kwargs):
        raise AssertionError("something is compiled again")

    monkeypatch.setattr(CompilerPool, "run", refuse)
    again = explained(model, x, cache_dir=tmp_path)
    assert [str(r) for r in again.regions] == [str(r) for r in found.regions]
    monkeypatch.setenv("TPU_TILE_CACHE_DIR", str(tmp_path))
    options = {"target": "v5e", "interpret": True, "debug": True, "debug_dir": tmp_path / "dump"}
    backend_options = {"mode": MODE, **options}
    compiled = torch.compile(model, backend="tpu_tile", options=backend_options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    (text,) = [p.read_text() for p in tmp_path.rglob("3_tuning.txt")]
    assert "kept on disk" in text
    assert "XLA's code: " in text


def test_other_modes_measure_nothing(no_pool, tmp_path):
    for mode in (None, "default", "reduce-overhead"):
        assert explained(Block(), torch.randn(64, 128), mode, cache_dir=tmp_path).regions
    assert not list(tmp_path.iterdir())


def test_there_is_nothing_to_tune_on_the_cpu(no_pool, tmp_path):
    options = {"cache_dir": tmp_path, "target": "cpu"}
    model, x = Block(), torch.randn(64, 128)
    assert explained(model, x, **options).regions
    compiled = torch.compile(model, backend="tpu_tile", options={**options, "mode": MODE})
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert not list(tmp_path.iterdir())


def test_a_graph_without_kernels_needs_no_compiler(no_pool, tmp_path):
    found = explained(lambda x: x.cumsum(0), torch.randn(64, 128), cache_dir=tmp_path)
    assert [r.tier.value for r in found.regions] == ["xla"]


def test_a_graph_of_several_programs_is_not_compared_as_a_whole(tmp_path, monkeypatch, caplog):
    requested = []

    def refuse_all(pool, requests, progress):
        requested.extend(requests)
        for request in requests:
            result = DevicelessResult(request.name, request.target, "no")
            yield CompileReply(result, None, 0.0)

    def model(x):
        return F.dropout(x.softmax(-1), 0.5).softmax(-1)

    monkeypatch.setattr(CompilerPool, "run", refuse_all)
    with caplog.at_level(logging.INFO, "tpu_inductor"):
        found = explained(model, torch.randn(64, 128), cache_dir=tmp_path)
    assert requested
    assert "not compared as a whole" in caplog.text
    assert {r.name for r in requested} == {"region"}
    assert [r.tier.value for r in found.regions].count("pallas") == 2


def test_without_the_compiler_the_default_is_chosen_and_the_log_tells(
    no_pool, tmp_path, monkeypatch, caplog
):
    def missing():
        raise Unsupported("libtpu is not here. Install it: pip install a-test")

    x = torch.randn(64, 128)
    default = explained(Block(), x, None)
    monkeypatch.setattr("tpu_inductor.tune.measure.require_libtpu", missing)
    found = [explained(Block(), x, cache_dir=tmp_path) for _ in range(2)]
    assert caplog.text.count("nothing is tuned. libtpu is not here. Install it") == 1
    assert [r.cells for r in found[0].regions] == [r.cells for r in default.regions]
