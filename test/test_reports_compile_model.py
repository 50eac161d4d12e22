"""`aot_compile` and its command: reports, errors at the user's lines, and what is refused."""

import importlib.util
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

import tpu_inductor
from tpu_inductor import aot
from tpu_inductor.aot import __main__ as command
from tpu_inductor.aot.messages import CompileReply, CompileRequest, DevicelessResult, argument_of
from tpu_inductor.errors import Unsupported
from tpu_inductor.reports.blame import find_problem

pytestmark = pytest.mark.aot

ROOT = Path(__file__).parent.parent

KERNELS = {"prefer": "pallas"}
"""So small a model would be left to XLA."""


class Block(torch.nn.Module):
    """Two kernels, of which one runs twice, and an eager call between them."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(256, 512)

    def forward(self, x):
        y = F.gelu(self.linear(x))
        y = F.dropout(y, 0.5)
        y = torch.softmax(y.flip(0), -1)
        return torch.softmax(y.flip(0), -1)


class Scripted(aot.CompilerPool):
    """A pool that answers at once, with an error for the functions that it is told."""

    def __init__(self, error="", refused=(), line=0):
        super().__init__(1)
        self.error, self.refused, self.line, self.requests = error, refused, line, []

    def run(self, requests, progress=lambda done, total: None):
        for done, request in enumerate(requests):
            progress(done, len(requests))
            self.requests.append(request)
            error = self.error if request.entry in self.refused else ""
            result = DevicelessResult(request.name, request.target, error, error_line=self.line)
            yield CompileReply(result, None, 0.0)


@pytest.fixture(scope="module")
def pool():
    with aot.CompilerPool(1) as pool:
        yield pool


def compile_block(pool, **settings):
    with torch.no_grad():
        return aot.aot_compile(
            Block(), torch.zeros(64, 256), pool=pool, options=KERNELS, **settings
        )


def text_of(renderable):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_a_model_compiles_and_its_report_is_plausible(pool):
    report = compile_block(pool)
    assert report.ok, str(report)
    assert report.summary == "v5e: 2 of 2 kernels and 2 of 2 programs compile, 1 eager call"
    linear, softmax = report.kernels
    assert (linear.calls, softmax.calls) == (1, 2)
    assert "aten.gelu" in linear.region.operators
    assert "test_reports_compile_model.py" in linear.region.places[0]
    for kernel in report.kernels:
        assert kernel.vmem_source == "compiler"
        assert 64 * 512 * 4 < kernel.vmem_bytes < 16 << 20
        assert kernel.hbm_bytes >= (64 * 256 + 64 * 512) * 4
        assert kernel.result.code_bytes > 0
        assert 0.1 < kernel.price.time_us < 100
    assert report.programs[0].result.argument_bytes >= (64 * 256 + 256 * 512 + 512) * 4
    assert report.programs[0].price.time_us > 0
    (eager,) = report.eager
    assert eager.name == "aten.native_dropout"
    assert "y = F.dropout(y, 0.5)" in eager.place


def test_a_report_prints_as_text_table_and_json(pool):
    report = compile_block(pool)
    text, table = str(report), text_of(report.table())
    for kernel in report.kernels:
        assert f"kernel {kernel.name}" in text
        assert kernel.name in table
    assert "us estimated" in text
    assert "estimated us" in table
    assert "y = F.dropout(y, 0.5)" in text
    told = json.loads(json.dumps(report.as_json()))
    assert told["ok"]
    assert told["kernels"][1]["calls"] == 2
    assert told["kernels"][0]["time_us_estimated"] == report.kernels[0].price.time_us


def test_fake_and_meta_models_compile():
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = Block()
    with torch.device("meta"):
        meta = Block()
    for model, x in (fake, torch.zeros(64, 256)), (meta, torch.zeros(64, 256, device="meta")):
        scripted = Scripted()
        with torch.no_grad():
            report = aot.aot_compile(model, x, target="v6e", pool=scripted, options=KERNELS)
        assert len(report.kernels) == 2
        assert {r.target for r in scripted.requests} == {"v6e"}


def test_keyword_arguments_options_and_progress_arrive():
    calls = []
    report = aot.aot_compile(
        lambda x, *, y: x @ y,
        torch.zeros(256, 256),
        kwargs={"y": torch.zeros(256, 256)},
        options={"prefer": "pallas"},
        pool=Scripted(),
        progress=lambda done, total: calls.append((done, total)),
    )
    assert len(report.kernels) == 1
    assert calls == [(0, 2), (1, 2)]


def rewritten(fn, old, new, pool, entry):
    """What the compiler says of a function's program after one of its lines was changed."""
    explanation = tpu_inductor.explain(fn, torch.zeros(64, 256), options={"target": "v5e"})
    (program,) = explanation.programs
    assert old in program.source
    program = replace(program, source=program.source.replace(old, new))
    arguments = tuple(argument_of(v) for v in program.inputs)
    request = CompileRequest("changed", program.source, arguments, "v5e", entry)
    (reply,) = pool.run([request])
    return find_problem(reply.result, program, [r.region for r in explanation.regions])


def chain(x):
    y = torch.tanh(x)
    z = torch.exp(y)
    return z * 2


def test_an_error_is_mapped_to_the_line_and_operator_of_the_user(pool):
    strided = "jnp.concatenate([tanh[:, ::2], tanh[:, ::2]], 1)"
    problem = rewritten(chain, "jnp.exp(tanh)", strided, pool, "program")
    (origin,) = problem.suspects
    assert (origin.op, origin.code) == ("aten.exp", "z = torch.exp(y)")
    assert origin.line == chain.__code__.co_firstlineno + 2
    assert "strides" in problem.message
    text = str(problem)
    assert "[:, ::2]" in text
    assert f"test_reports_compile_model.py:{origin.line} `z = torch.exp(y)`" in text
    assert "github.com" not in text


def test_an_error_without_a_line_lists_the_operators(pool):
    problem = rewritten(chain, "jnp.exp(tanh)", "jax.scipy.special.erfinv(tanh)", pool, "program")
    assert [o.op for o in problem.suspects] == ["aten.tanh", "aten.exp", "aten.mul.Tensor"]
    assert "which is one of" in str(problem)
    assert "SIGABRT" in str(problem)


def test_an_error_that_names_a_kernel_lists_the_operators_of_that_kernel_alone():
    def two(x):
        return torch.tanh(x).flip(0).exp()

    options = {"target": "v5e"} | KERNELS
    explanation = tpu_inductor.explain(two, torch.zeros(64, 256), options=options)
    (program,) = explanation.programs
    name = f"jit(program)/jit({program.calls[-1].function})/pallas_call"
    error = f'Ran out of memory for %k, metadata={{op_name="{name}"}}'
    result = DevicelessResult("p", "v5e", error)
    problem = find_problem(result, program, [r.region for r in explanation.regions])
    assert [o.op for o in problem.suspects] == ["aten.exp"]


def test_a_report_with_errors_says_so_everywhere():
    report = compile_block(Scripted("no such layout", refused=("program",)))
    assert not report.ok
    assert all(k.ok for k in report.kernels)
    assert "does not compile" in str(report)
    assert "no such layout" in text_of(report.table())
    assert report.as_json()["programs"][0]["error"].startswith("no such layout")
    assert report.kernels[0].vmem_source == "schedule"
    assert report.kernels[0].vmem_bytes > 0


def test_without_libtpu_the_message_says_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "libtpu" else found(name)
    )
    with pytest.raises(Unsupported, match=r'pip install "jax\[tpu\]==\d+\.\d+\.\d+"'):
        aot.aot_compile(Block(), torch.zeros(64, 256))


@pytest.mark.parametrize(("name", "why"), [("v9", "unknown target"), ("cpu", "no TPU")])
def test_a_target_that_is_no_tpu_is_refused_with_those_that_are(name, why):
    valid = re.escape("Valid targets: v4, v5e, v5p, v6e, tpu7x")
    with pytest.raises(Unsupported, match=f"{why}.*{valid}"):
        aot.aot_compile(Block(), torch.zeros(64, 256), target=name)


EXAMPLE = """
import torch

def aot_example():
    return torch.nn.Softmax(-1), (torch.zeros(64, 256),), {}
"""


def test_the_command_compiles_a_file_for_two_targets(tmp_path, capsys):
    file, out = tmp_path / "model.py", tmp_path / "report.json"
    file.write_text(EXAMPLE)
    arguments = [str(file), "--target", "v5e", "--target", "v6e", "--jobs", "1"]
    assert command.main([*arguments, "--json", str(out)]) == 0
    told = json.loads(out.read_text())
    assert [r["target"] for r in told] == ["v5e", "v6e"]
    assert all(r["ok"] for r in told)
    printed = capsys.readouterr().out
    assert "v5e: 1 of 1 kernels and 1 of 1 programs compile" in printed
    assert "Kernels for v6e" in printed


def test_the_command_fails_where_something_does_not_compile(tmp_path, monkeypatch):
    file = tmp_path / "model.py"
    file.write_text(EXAMPLE)
    monkeypatch.setattr(
        command, "CompilerPool", lambda jobs, timeout: Scripted("no", refused=("program",))
    )
    assert command.main([str(file)]) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "is no Python file"),
        ("x = 1\n", "defines no aot_example"),
        ("def aot_example():\n    return 1\n", "must return"),
    ],
)
def test_the_command_says_what_an_example_must_be(tmp_path, capsys, text, why):
    file = tmp_path / "model.py"
    if text is not None:
        file.write_text(text)
    assert command.main([str(file)]) == 2
    assert why in capsys.readouterr().err


def test_the_llama_example_can_be_compiled():
    model, args, kwargs = command.load_example(ROOT / "examples" / "llama.py")
    with torch.no_grad():
        assert model(*args, **kwargs).shape == (1, 64, 2048)
