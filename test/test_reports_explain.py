"""What `explain` tells of a model, and what a compilation tells in logs and errors."""

import logging
import subprocess
import sys

import pytest
import torch
from rich.console import Console
from torch._dynamo.utils import counters

import tpu_inductor
from tpu_inductor.regions.region import Tier


def tensor(*shape, device="cpu"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)


def mixed(x):
    y = torch.softmax(x, -1)
    z = torch.special.bessel_j0(y)
    return z.cumsum(0) * 2


def tiers(explanation):
    return {region.operators[-1]: region.tier for region in explanation.regions}


def table_text(explanation):
    console = Console(width=200)
    with console.capture() as capture:
        console.print(explanation.table())
    return capture.get()


def test_every_region_is_named_with_tier_line_and_reason():
    explanation = tpu_inductor.explain(mixed, tensor(8, 16))
    found = tiers(explanation)
    assert found["aten._softmax"] is Tier.PALLAS
    assert found["aten.special_bessel_j0"] is Tier.EAGER
    assert explanation.work["programs"] == 2
    text = str(explanation)
    assert "softmax: pallas" in text
    assert "test_reports_explain.py:" in text
    assert "`z = torch.special.bessel_j0(y)`" in text
    assert "aten.special_bessel_j0 has no lowering" in text
    assert "cumsum has no kernel" in text


def test_a_tpu_is_explained_with_memory_and_an_estimate_and_the_cpu_is_not():
    x = tensor(4096, 1024)
    on_tpu = tpu_inductor.explain(torch.nn.Softmax(-1), x, options={"target": "v5e"})
    (region,) = on_tpu.regions
    assert region.schedule.grid
    assert "VMEM" in str(on_tpu)
    assert "estimate" in str(on_tpu)
    assert "tpu_tile for v5e: 1 graph, 1 program, 1 kernel, 0 XLA ops" in str(on_tpu)
    on_cpu = tpu_inductor.explain(torch.nn.Softmax(-1), x)
    assert "estimate" not in str(on_cpu)
    assert "grid one point" in str(on_cpu)


def test_tensors_may_be_on_the_meta_device():
    args = (tensor(4096, 1024, device="meta"), tensor(1024, 512, device="meta"))
    explanation = tpu_inductor.explain(
        lambda x, w: torch.relu(x @ w), *args, options={"target": "v6e"}
    )
    assert explanation.work["kernels"] == 1


def test_programs_are_at_hand_as_text():
    (program,) = tpu_inductor.explain(torch.relu, tensor(4, 3)).programs
    compile(program.source, program.name, "exec")
    assert "import torch" not in program.source


def test_equal_regions_share_a_row_of_the_table():
    def two(x):
        return torch.softmax(torch.sort(torch.softmax(x, -1), -1).values, -1)

    explanation = tpu_inductor.explain(two, tensor(8, 16))
    assert explanation.work["kernels"] == 2
    rows = [line for line in table_text(explanation).splitlines() if "pallas" in line]
    assert [row.split("│")[2].strip() for row in rows] == ["2"]


def test_graph_breaks_give_several_graphs():
    def broken(x):
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y + 1

    assert len(tpu_inductor.explain(broken, tensor(4)).graphs) == 2


def test_backward_graphs_are_explained_without_a_backward_pass():
    weight = tensor(4, 3).requires_grad_()
    explanation = tpu_inductor.explain(lambda w: torch.tanh(w).sum(), weight)
    forward, backward = (graph.name for graph in explanation.graphs)
    assert "forward" in forward
    assert "backward" in backward


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_graph_that_stays_in_torch_says_why():
    explanation = tpu_inductor.explain(lambda x: torch.nonzero(x) * 2, tensor(3))
    assert "runs in torch as a whole: a shape depends on data" in str(explanation)
    assert "a shape depends on data" in table_text(explanation)


def test_symbolic_shapes_are_explained_for_the_sizes_of_the_call():
    x = tensor(6, 5)
    torch._dynamo.mark_dynamic(x, 0)
    assert "f32[6,5]" in str(tpu_inductor.explain(torch.relu, x))


def test_explaining_counts_nothing_and_runs_no_program():
    counters["tpu_tile"].clear()
    tpu_inductor.explain(torch.relu, tensor(4))
    assert not counters["tpu_tile"]


def test_an_unknown_option_is_refused():
    with pytest.raises(ValueError, match="did you mean 'target'"):
        tpu_inductor.explain(torch.relu, tensor(4), options={"targe": "v5e"})


def test_the_backend_refuses_an_unknown_option_with_a_value_error():
    fn = torch.compile(torch.relu, backend="tpu_tile", options={"strit": True})
    with pytest.raises(ValueError, match="did you mean 'strict'"):
        fn(tensor(4))


def test_strict_mode_raises_unsupported_with_operator_and_line():
    fn = torch.compile(mixed, backend="tpu_tile", options={"strict": True})
    with pytest.raises(tpu_inductor.Unsupported, match=r"bessel_j0 has no lowering - .*\.py:\d+"):
        fn(tensor(4, 3))


def test_a_fallback_is_logged_with_its_line_and_the_way_out(caplog):
    with caplog.at_level(logging.INFO, logger="tpu_inductor"):
        torch.compile(mixed, backend="tpu_tile")(tensor(4, 3))
    (record,) = (r for r in caplog.records if "bessel" in r.message)
    assert "aten.special_bessel_j0 has no lowering - " in record.message
    assert record.message.endswith("runs eagerly. To add a lowering: CONTRIBUTING.md#lowering")


def test_debug_writes_every_stage(tmp_path):
    options = {"debug": True, "debug_dir": tmp_path}
    x = tensor(4, 3)
    k = torch.tensor([1.0, 2.0, 3.0])
    got = torch.compile(lambda x: mixed(x) + k, backend="tpu_tile", options=options)(x)
    torch.testing.assert_close(got, mixed(x) + k)
    (folder,) = tmp_path.iterdir()
    assert {p.name for p in folder.iterdir()} >= {
        "0_fx.py",
        "1_graph.txt",
        "2_regions.txt",
        "3_schedule.txt",
        "4_program.py",
        "5_steps.txt",
        "fallbacks.txt",
    }
    assert "bessel" in (folder / "fallbacks.txt").read_text()


def test_constants_of_a_graph_are_real_tensors():
    fn = torch.compile(lambda x: x + torch.tensor([1.0, 2.0]), backend="tpu_tile")
    assert fn(torch.zeros(2)).tolist() == [1.0, 2.0]


def test_importing_the_package_loads_neither_torch_nor_jax():
    code = "import tpu_inductor, sys; assert not {'torch', 'jax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_backend_is_found_without_an_import():
    assert "tpu_tile" in torch._dynamo.list_backends()


def test_a_tpu_target_without_interpretation_says_that_there_is_no_runtime():
    fn = torch.compile(torch.relu, backend="tpu_tile", options={"target": "v5e"})
    with pytest.raises(tpu_inductor.Unsupported, match="there is no TPU runtime"):
        fn(tensor(4))
