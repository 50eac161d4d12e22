"""Dumps: numbering, files, and the replay of programs from them."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from test_runtime_compiled import Graph, Plan, eager, given, program, result, var

from tpu_inductor.debug.bisect import bisect
from tpu_inductor.debug.dump import Dump, observe_graph
from tpu_inductor.debug.replay import difference, main
from tpu_inductor.errors import Unsupported
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.signature import Signature
from tpu_inductor.graph.types import DType, TensorType
from tpu_inductor.options import Options


def make_plan(dtype=DType.F32, body="(x * 2,)"):
    b = Builder()
    x = b.input("x", TensorType((4, 3), dtype))
    y = b.op("mul", x, b.lit(2, dtype))
    graph = b.finish("double", [y])
    step = program(body, [x], [y])
    signature = Signature((given(x),), (result(y),))
    return Plan("double", graph, signature, (), (step,), False)


def test_folders_are_numbered_from_the_disk(tmp_path):
    first = Dump.create(tmp_path / "d", "a")
    assert first.path.name == "0000_a"
    assert Dump.create(tmp_path / "d", "b/c d").path.name == "0001_b_c_d"


def test_no_two_folders_share_a_number(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        dumps = list(pool.map(lambda i: Dump.create(tmp_path, f"g{i % 3}"), range(40)))
    assert len({d.path.name[:4] for d in dumps}) == 40
    assert len(list(tmp_path.iterdir())) == 40


def test_every_stage_has_a_file(tmp_path):
    options = Options(debug=True, debug_dir=tmp_path)
    gm = torch.fx.symbolic_trace(lambda x: x * 2)
    observe = observe_graph(options, "double", gm)
    plan = make_plan()
    observe("graph", plan.graph)
    observe("steps", plan)
    (folder,) = tmp_path.iterdir()
    names = {p.name for p in folder.iterdir()}
    assert {"0_fx.py", "1_graph.txt", "4_program.py", "5_steps.txt", "fallbacks.txt"} <= names
    assert "mul" in (folder / "1_graph.txt").read_text()
    assert (folder / "fallbacks.txt").read_text() == "none\n"


def test_fallbacks_are_listed(tmp_path):
    x, y = var("x", (4,)), var("y", (4,))
    step = eager(torch.ops.aten.neg.default, [x], [y])
    graph = Graph("g", (x,), (step,), (y,))
    plan = Plan("g", graph, Signature((given(x),), (result(y),)), (), (step,), False)
    dump = Dump.create(tmp_path, "g")
    dump.stage("steps", plan)
    assert re.match(r"aten\.neg\.default: test", (dump.path / "fallbacks.txt").read_text())


def test_without_debug_nothing_is_written(tmp_path):
    observe = observe_graph(
        Options(debug_dir=tmp_path / "d"), "g", torch.fx.symbolic_trace(lambda x: x)
    )
    observe("steps", make_plan())
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I64, DType.F64])
def test_replay_runs_the_edited_text(tmp_path, capsys, dtype):
    dump = Dump.create(tmp_path, "double")
    dump.stage("steps", make_plan(dtype, "((x + x).astype(x.dtype),)"))
    assert main([str(dump.path)]) == 0
    assert "ok" in capsys.readouterr().out
    source = dump.path / "4_program.py"
    source.write_text(source.read_text().replace("x + x", "x + x + x + 1"))
    assert main([str(dump.path)]) == 1
    assert "DIFFERS" in capsys.readouterr().out


def test_a_compiled_function_can_be_replayed(tmp_path):
    options = {"debug": True, "debug_dir": str(tmp_path)}
    fn = torch.compile(lambda x: torch.softmax(x * 2, -1), backend="tpu_tile", options=options)
    fn(torch.randn(4, 8))
    (folder,) = tmp_path.iterdir()
    assert main([str(folder)]) == 0


def refused(folder, capsys):
    with pytest.raises(SystemExit) as told:
        main([str(folder)])
    assert told.value.code == 2
    return capsys.readouterr().err


def test_replay_says_why_there_is_nothing_to_replay(tmp_path, capsys):
    assert "holds no 4_program" in refused(tmp_path, capsys)
    missing = refused(tmp_path / "missing", capsys)
    assert "there is no folder" in missing
    assert "TPU_TILE_DEBUG=1" in missing
    Dump.create(tmp_path, "g").write("0_fx.py", "")
    assert "replay one of them: 0000_g" in refused(tmp_path, capsys)


def test_replay_of_a_program_without_a_record_says_why(tmp_path, capsys):
    dump = Dump.create(tmp_path, "double")
    dump.stage("steps", make_plan())
    (dump.path / "4_program.json").unlink()
    dump.write("replay.txt", "not recorded: too large")
    assert "no record of inputs and results: not recorded: too large" in refused(dump.path, capsys)


def test_the_folder_of_a_strict_refusal_tells_what_was_refused(tmp_path, capsys):
    options = {"debug": True, "debug_dir": str(tmp_path), "strict": True}
    fn = torch.compile(lambda x: torch.fft.fft(x).real, backend="tpu_tile", options=options)
    with pytest.raises(Unsupported, match="strict"):
        fn(torch.randn(8))
    (folder,) = tmp_path.iterdir()
    told = refused(folder, capsys)
    assert "none was made" in told
    assert "aten._fft_r2c" in told


def test_difference_knows_nan_and_infinity():
    nan, inf = float("nan"), float("inf")
    expected = torch.tensor([1.0, nan, inf])
    assert difference(expected.clone(), expected) == 0
    assert difference(torch.tensor([1.0, nan, -inf]), expected) == inf
    assert difference(torch.tensor([1.0, 2.0, inf]), expected) == inf


@pytest.mark.parametrize("guilty", [1, 2, 17, 100])
def test_bisect_finds_the_region(guilty):
    assert bisect(lambda fuel: fuel < guilty, 100) == guilty


def test_bisect_refuses_what_it_cannot_answer():
    with pytest.raises(ValueError, match="fuel 0"):
        bisect(lambda fuel: False, 4)
    with pytest.raises(ValueError, match="fuel 4"):
        bisect(lambda fuel: True, 4)
