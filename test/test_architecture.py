"""The rules that keep the code readable, checked on its syntax trees."""

import ast
from pathlib import Path

import pytest

import tpu_inductor
from tpu_inductor.codegen.expr import SPELL
from tpu_inductor.graph.interp import MEANING
from tpu_inductor.graph.prims import PRIMS
from tpu_inductor.regions.factor_rules import FACTOR_RULES

ROOT = Path(tpu_inductor.__file__).parent
FILES = sorted(p.relative_to(ROOT) for p in ROOT.rglob("*.py"))

# Imports point to the left. Schedules and templates define each other's types.
LAYERS = (
    {"errors"},
    {"graph"},
    {"options", "target"},
    {"lowerings"},
    {"front"},
    {"regions"},
    {"schedule", "templates"},
    {"codegen"},
    {"runtime"},
    {"aot"},
    {"tune"},
    {"pipeline"},
    {"debug"},
    # What users see of `aot` stands on `explain`; the compiler itself stands on the rest of it.
    {"aot.blame"},
    {"aot.report"},
    {"aot.model"},
    {"aot.__main__", "aot.__init__"},
    {"backend"},
    {"__init__"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

TORCH = {"front", "lowerings", "runtime", "aot", "debug", "pipeline", "backend", "__init__"}
TORCH_FILES = {"graph/torch_dtypes.py"}  # and graph/interp*.py
JAX = {"runtime", "aot"}

FILE_LINES = 400
FUNCTION_LINES = 60


def tree(file):
    return ast.parse((ROOT / file).read_text())


def package(file):
    return file.parts[0].removesuffix(".py")


def rank(dotted):
    """The layer of a module, or else that of its package."""
    return RANK.get(".".join(dotted.split(".")[:2]), RANK[dotted.split(".")[0]])


def imported(file):
    """The dotted names that `file` imports, modules and their members."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots(file):
    return {name.split(".")[0] for name in imported(file)}


every_file = pytest.mark.parametrize("file", FILES, ids=str)


@every_file
def test_imports_point_down(file):
    ours = [
        n.removeprefix("tpu_inductor.") for n in imported(file) if n.startswith("tpu_inductor.")
    ]
    here = rank(".".join(file.with_suffix("").parts))
    up = {name for name in ours if rank(name) > here}
    assert not up, f"{file} imports {up}, which lie above it"


@every_file
def test_torch_is_imported_at_the_edges_only(file):
    is_oracle = file.parts[0] == "graph" and file.name.startswith("interp")
    if package(file) in TORCH or is_oracle or file.as_posix() in TORCH_FILES:
        return
    assert not roots(file) & {"torch", "functorch"}


@every_file
def test_jax_is_imported_by_the_runtime_and_aot_only(file):
    if package(file) not in JAX:
        assert not roots(file) & {"jax", "jaxlib"}


@every_file
def test_files_and_functions_are_short(file):
    assert len((ROOT / file).read_text().splitlines()) <= FILE_LINES
    functions = [n for n in ast.walk(tree(file)) if isinstance(n, ast.FunctionDef)]
    long = [f.name for f in functions if f.end_lineno - f.lineno >= FUNCTION_LINES]
    assert not long


@every_file
def test_the_environment_is_read_by_options_only(file):
    if file.as_posix() == "options.py":
        return
    reads = [
        node.attr
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "putenv")
    ]
    assert not reads


@every_file
def test_there_is_no_ambient_state(file):
    assert not any(isinstance(n, ast.Global | ast.Nonlocal) for n in ast.walk(tree(file)))
    assert "contextvars" not in roots(file)


@every_file
def test_imports_are_at_the_top(file):
    inner = [
        node.lineno
        for function in ast.walk(tree(file))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not inner


@every_file
def test_no_error_is_caught_blindly(file):
    blind = [
        node.lineno
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    assert not blind


@every_file
def test_files_are_named_after_what_they_hold(file):
    assert file.stem not in {"utils", "util", "common", "base", "helpers", "misc"}


@every_file
def test_every_module_says_what_it_is(file):
    module = tree(file)
    assert not module.body or ast.get_docstring(module)


@pytest.mark.parametrize(
    "table", [MEANING, SPELL, FACTOR_RULES], ids=["meaning", "spelling", "factors"]
)
def test_tables_have_a_row_for_every_primitive(table):
    assert set(table) == set(PRIMS)
