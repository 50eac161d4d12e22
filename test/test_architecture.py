"""The rules that keep the code readable, checked on its syntax trees."""

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

import tpu_inductor
from tpu_inductor.codegen.expr import SPELL
from tpu_inductor.graph.interp import MEANING
from tpu_inductor.graph.prims import PRIMS
from tpu_inductor.regions.factor_rules import FACTOR_RULES
from tpu_inductor.regions.mosaic import NO_LOWERING
from tpu_inductor.schedule.rates import PRIMITIVE_CYCLES, PRIMITIVE_CYCLES_6

ROOT = Path(tpu_inductor.__file__).parent
FILES = sorted(p.relative_to(ROOT) for p in ROOT.rglob("*.py"))

# Imports point to the left. Schedules and templates define each other's types, and regions ask
# whether equations stream, which is a question about their factors.
LAYERS = (
    {"collector", "errors"},
    {"graph"},
    {"options", "target"},
    {"lowerings"},
    {"front"},
    {"regions", "streams"},
    {"schedule", "templates"},
    {"codegen"},
    {"runtime"},
    {"aot"},
    {"tune"},
    {"pipeline"},
    {"debug"},
    {"reports"},
    # The command line and the lazy names of `aot` are how users reach its reports.
    {"aot.__main__", "aot.__init__"},
    {"backend"},
    {"__init__"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

TORCH = {
    "front",
    "lowerings",
    "runtime",
    "aot",
    "debug",
    "reports",
    "pipeline",
    "backend",
    "__init__",
}
TORCH_FILES = {"graph/torch_dtypes.py"}  # and graph/interp*.py
JAX = {"runtime", "aot"}

FILE_LINES = 400
FUNCTION_LINES = 60
NAMELESS = {"utils", "util", "common", "base", "helpers", "misc"}


@dataclass(frozen=True)
class Source:
    """One file of the package, read and parsed once for all rules."""

    path: Path

    @cached_property
    def text(self):
        return (ROOT / self.path).read_text()

    @cached_property
    def tree(self):
        return ast.parse(self.text)

    @cached_property
    def nodes(self):
        return list(ast.walk(self.tree))

    @property
    def package(self):
        return self.path.parts[0].removesuffix(".py")

    def find(self, *kinds):
        return [node for node in self.nodes if isinstance(node, kinds)]

    @cached_property
    def imported(self):
        """The dotted names that the file imports, modules and their members."""
        names = [alias.name for node in self.find(ast.Import) for alias in node.names]
        return names + [
            f"{node.module}.{alias.name}"
            for node in self.find(ast.ImportFrom)
            for alias in node.names
        ]

    @cached_property
    def roots(self):
        return {name.split(".")[0] for name in self.imported}


SOURCES = [Source(file) for file in FILES]


def rank(dotted):
    """The layer of a module, or else that of its package."""
    return RANK.get(".".join(dotted.split(".")[:2]), RANK[dotted.split(".")[0]])


def offenders(find):
    """What `find` has to say of each file, by file, where it says anything."""
    return {str(s.path): found for s in SOURCES if (found := find(s))}


def test_imports_point_down():
    def above(source):
        here = rank(".".join(source.path.with_suffix("").parts))
        ours = (n for n in source.imported if n.startswith("tpu_inductor."))
        return {n for n in ours if rank(n.removeprefix("tpu_inductor.")) > here}

    assert not offenders(above)


def test_torch_is_imported_at_the_edges_only():
    def torch_names(source):
        is_oracle = source.package == "graph" and source.path.name.startswith("interp")
        if source.package in TORCH or is_oracle or source.path.as_posix() in TORCH_FILES:
            return set()
        return source.roots & {"torch", "functorch"}

    assert not offenders(torch_names)


def test_jax_is_imported_by_the_runtime_and_aot_only():
    assert not offenders(lambda s: s.package not in JAX and s.roots & {"jax", "jaxlib"})


def test_files_are_short():
    lengths = offenders(lambda s: len(s.text.splitlines()))
    assert not {file: n for file, n in lengths.items() if n > FILE_LINES}


def test_functions_are_short():
    def long(source):
        functions = source.find(ast.FunctionDef, ast.AsyncFunctionDef)
        return [f.name for f in functions if f.end_lineno - f.lineno >= FUNCTION_LINES]

    assert not offenders(long)


def test_the_environment_is_read_by_options_only():
    def reads(source):
        attributes = {node.attr for node in source.find(ast.Attribute)}
        return attributes & {"environ", "getenv", "putenv"}

    assert set(offenders(reads)) == {"options.py"}


def test_there_is_no_ambient_state():
    def ambient(source):
        return source.find(ast.Global, ast.Nonlocal) or source.roots & {"contextvars"}

    assert not offenders(ambient)


def test_imports_are_at_the_top():
    def inner(source):
        return [
            node.lineno
            for function in source.find(ast.FunctionDef, ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]

    assert not offenders(inner)


def test_no_error_is_caught_blindly():
    def blind(source):
        return [
            node.lineno
            for node in source.find(ast.ExceptHandler)
            if node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
        ]

    assert not offenders(blind)


def test_files_are_named_after_what_they_hold():
    assert not {f for f in FILES if f.stem in NAMELESS}


def test_every_module_says_what_it_is():
    assert not offenders(lambda s: s.text and not ast.get_docstring(s.tree))


@pytest.mark.parametrize(
    "table", [MEANING, SPELL, FACTOR_RULES], ids=["meaning", "spelling", "factors"]
)
def test_tables_have_a_row_for_every_primitive(table):
    assert set(table) == set(PRIMS)


def test_only_what_a_kernel_may_hold_has_a_rate():
    assert not NO_LOWERING & {*PRIMITIVE_CYCLES, *PRIMITIVE_CYCLES_6}
