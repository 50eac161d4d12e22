"""The documents say what the compiler does: examples, tables, names of files."""

import functools
import linecache
import os
import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import tpu_inductor
from tpu_inductor.front.trace import trace_with
from tpu_inductor.options import Options
from tpu_inductor.pipeline import lower_graph
from tpu_inductor.runtime.boxed import EagerGraph, as_boxed

ROOT = Path(__file__).parent.parent
DOCS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
STAGE = re.compile(r"(<!-- stage: (\w+) -->\n```\w+\n)(.*?)(```\n)", re.DOTALL)

every_doc = pytest.mark.parametrize("doc", DOCS)


def read(doc):
    return (ROOT / doc).read_text()


def load(source):
    """The namespace of `source` as the file model.py, whose lines torch can quote."""
    linecache.cache["model.py"] = (len(source), None, source.splitlines(keepends=True), "model.py")
    namespace = {}
    exec(compile(source, "model.py", "exec"), namespace)
    return namespace


def stages_of(source):
    """What every stage makes of the example in `source`, as dumps show it."""
    stages = {"model": source}

    def compiler(gm, args):
        lowered = lower_graph(
            gm, "forward", {}, Options(target="v5e"), lambda s, v: stages.setdefault(s, str(v))
        )
        stages["fx"] = gm.print_readable(print_output=False, include_stride=False)
        stages["steps"] = str(lowered.plan)
        stages["program"] = lowered.plan.steps[0].source
        return as_boxed(EagerGraph(gm))

    torch._dynamo.reset()
    fn = torch.compile(load(source)["scaled_softmax"], backend=trace_with(compiler))
    fn(torch.ones(256, 512), torch.ones(512))
    # On one page there is no room to repeat the equations, the header and the losing candidates.
    stages["fx"] = "\n".join(line for line in stages["fx"].splitlines() if line.strip())
    head, *equations = stages["regions"].splitlines()[1:]
    stages["regions"] = f"{head}\n  ... {len(equations)} equations\n"
    stages["schedule"] = re.sub(r"  not .*\n", "", stages["schedule"])
    stages["program"] = stages["program"].split("\n\n\n", 1)[1]
    return {name: text.rstrip() + "\n" for name, text in stages.items()}


def test_the_example_of_the_architecture_is_what_the_compiler_prints():
    text = read("ARCHITECTURE.md")
    shown = {name: body for _, name, body, _ in STAGE.findall(text)}
    stages = stages_of(shown["model"])
    if os.environ.get("EXPECTTEST_ACCEPT") == "1":
        new = STAGE.sub(lambda m: f"{m[1]}{stages[m[2]]}{m[4]}", text)
        (ROOT / "ARCHITECTURE.md").write_text(new)
        return
    assert set(shown) == {"model", "fx", "graph", "regions", "schedule", "program", "steps"}
    for name, body in shown.items():
        assert body == stages[name], f"stage {name}; EXPECTTEST_ACCEPT=1 prints it anew"


def test_the_code_of_the_readme_runs():
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL):
        exec(block, namespace)
    assert namespace["y"].shape == (8, 64)
    assert "pallas_call" in namespace["explanation"].programs[0].source


@every_doc
def test_files_that_are_named_exist(doc):
    named = re.findall(r"\b((?:tpu_inductor|test|examples)/[\w/]+\.py)", read(doc))
    assert not [name for name in named if not (ROOT / name).exists()]


@every_doc
def test_links_lead_somewhere(doc):
    for target in re.findall(r"\]\(([^)#]+)", read(doc)):
        assert (ROOT / target).exists()


def test_the_message_of_a_fallback_points_at_a_heading():
    assert "\n## Lowering\n" in read("CONTRIBUTING.md")


def test_every_option_is_in_the_readme():
    text = read("README.md")
    missing = [n for n in Options.__dataclass_fields__ if n != "mode" and f"`{n}`" not in text]
    assert not missing


def seeded(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


X, W, B = seeded(256, 512), seeded(256, 512), seeded(256)
LONG = torch.randn(1, 4, 1024, 64)
IMAGE, KERNEL = seeded(2, 8, 32, 32), seeded(4, 8, 3, 3)
ROW, CHANNEL, MATRIX, INDEX = seeded(512), seeded(8), seeded(16, 16), torch.arange(64)

TABLE = {
    "pointwise": [lambda: torch.tanh(torch.relu(X) * 2), lambda: X.int() * 2 + 1],
    "int64, float64, float16": [lambda: X.long() * 2, lambda: X.double() * 2, lambda: X.half() * 2],
    "sum, max, min, mean, var": [lambda: X.sum(-1), lambda: X.amax(0), lambda: X.var(-1)],
    "prod": [lambda: X.prod(-1)],
    "argmax, argmin": [lambda: seeded(1024, 1024).argmax(-1)],
    "softmax, log_softmax": [lambda: X.softmax(-1), lambda: X.log_softmax(-1)],
    "layer, RMS, batch norm": [
        lambda: F.layer_norm(X, (512,), ROW, ROW),
        lambda: F.rms_norm(X, (512,), ROW),
        lambda: F.batch_norm(IMAGE, CHANNEL, CHANNEL),
    ],
    "matmul with bias, activation, residual or cast": [lambda: F.gelu(F.linear(X, W, B))],
    "matmul alone": [lambda: X @ W.T],
    "attention, by SDPA or by hand": [
        lambda: F.scaled_dot_product_attention(LONG, LONG, LONG),
        lambda: torch.softmax(LONG @ LONG.mT, -1) @ LONG,
    ],
    "views": [lambda: X.t().reshape(-1, 16)],
    "cat, slice, pad, flip": [lambda: torch.cat([X, W]), lambda: F.pad(X, (1, 1)).flip(0)],
    "where, masked_fill, tril, triu": [lambda: torch.where(X > 0, X, 0).tril()],
    "embedding, indexing, scatter": [lambda: F.embedding(INDEX, X), lambda: X[INDEX, INDEX]],
    "cumsum, sort, topk": [lambda: X.cumsum(-1), lambda: X.sort(-1).values, lambda: X.topk(4)],
    "convolution": [lambda: F.conv2d(IMAGE, KERNEL)],
    "random numbers, dropout": [lambda: torch.rand_like(X), lambda: F.dropout(X, 0.5)],
    "complex numbers, FFT": [lambda: torch.fft.rfft(X)],
    "linear algebra": [lambda: torch.linalg.svdvals(MATRIX)],
}


def rows():
    section = read("README.md").split("## What runs where")[1].split("## Limits")[0]
    cells = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("|")]
    return {name.strip(): tier.strip() for name, tier in cells[2:]}


def test_the_table_of_the_readme_has_the_rows_that_are_checked():
    assert list(rows()) == list(TABLE)


def tiers(fn):
    with torch.no_grad():
        regions = tpu_inductor.explain(fn, options={"target": "v5e"}).regions
    return {region.tier.value for region in regions}


@pytest.mark.parametrize("family", TABLE)
def test_the_table_of_the_readme_is_what_happens(family):
    found = functools.reduce(set.union, map(tiers, TABLE[family]), set())
    assert rows()[family] == ", ".join(sorted(found, key=["pallas", "xla", "eager"].index))
