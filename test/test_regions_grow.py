"""Growing regions: how much work it is, which joins are tried again, and what is undone."""

from collections import Counter

import pytest
from gates import V5E
from kernel_graphs import F32, build, dot, row_sum, tensor

from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.regions import groups
from tpu_inductor.regions.factors import Unifier
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.region import Partition, Tier


@pytest.fixture
def work(monkeypatch):
    """Counts equations that are factorised, and dimensions that are unified."""
    counts = Counter[str]()
    factorise, unify = groups.factorise, Unifier.unify

    def counted_factorise(eqns, *args):
        counts["factorised"] += len(eqns)
        return factorise(eqns, *args)

    def counted_unify(self, left, right):
        counts["unified"] += 1
        unify(self, left, right)

    monkeypatch.setattr(groups, "factorise", counted_factorise)
    monkeypatch.setattr(Unifier, "unify", counted_unify)
    return counts


def kernels(graph: Graph) -> Partition:
    return partition_regions(graph, V5E, prefer="pallas")


def chain(b: Builder, n: int):
    x = tensor(b, "x", (64, 256))
    for _ in range(n):
        x = b.op("sin", x)
    return x


def readers(b: Builder, n: int):
    """Many that read one tensor and nothing of each other."""
    x = tensor(b, "x", (64, 256))
    return [b.op("mul", x, b.lit(float(i), F32)) for i in range(n)]


def norms(b: Builder, n: int):
    """Layers with a matmul, a reduction and a residual."""
    x, w = tensor(b, "x", (64, 256)), tensor(b, "w", (256, 256))
    for _ in range(n // 6):
        scale = b.op("rsqrt", row_sum(b, b.op("mul", x, x)))
        x = b.op("add", dot(b, b.op("mul", x, scale), w), x)
    return x


def outer(b: Builder, n: int):
    """Every value of a vector with every other: readings of one tensor that stay two."""
    v = tensor(b, "v", (64,))
    x = b.op("sub", b.reshape(v, (64, 1)), b.reshape(v, (1, 64)))
    for _ in range(n):
        x = b.op("add", b.op("sin", x), b.reshape(v, (64, 1)))
    return x


@pytest.mark.parametrize("make", [chain, readers, norms, outer])
def test_work_grows_with_the_equations(work, make):
    """Twice the equations are twice the work, and no equation is factorised more than twice."""
    counts: list[Counter[str]] = []
    for n in (120, 240):
        work.clear()
        graph = build(make, n)
        kernels(graph)
        counts.append(Counter(work))
        assert work["factorised"] <= 2 * len(graph.eqns)
    for key in counts[0]:
        assert counts[1][key] <= 2.2 * counts[0][key]


@pytest.mark.parametrize(("make", "forms"), [(chain, 1), (norms, 7)])
def test_equal_equations_are_factorised_once(work, make, forms):
    kernels(build(make, 240))
    assert work["factorised"] <= 3 * forms


def test_a_refused_join_leaves_no_trace():
    """The transpose of a square does not fit its group; what follows still finds two axes."""

    def symmetric(b: Builder):
        x = b.op("exp", tensor(b, "x", (64, 64)))
        both = b.op("add", x, b.transpose(x, (1, 0)))
        return b.op("sin", both)

    made = kernels(build(symmetric))
    for region in made.regions:
        assert region.tier is Tier.PALLAS
        assert region.factoring is not None
        assert len(region.factoring.factors) == 2
    assert "two of its own dimensions" in str(made)


def test_readings_that_were_one_become_two_where_a_join_needs_it():
    """sin(x) and cos(x) read x along the same axes until one of them meets x transposed."""

    def turned(b: Builder):
        x = tensor(b, "x", (64, 64))
        first, second = b.op("sin", x), b.op("cos", x)
        return b.op("add", first, b.transpose(second, (1, 0)))

    (region,) = kernels(build(turned)).regions
    assert region.factoring is not None
    first, second = region.factoring.accesses.values()
    assert first == second[::-1]


def test_factors_are_numbered_alike_in_equal_regions():
    def layers(b: Builder):
        return [b.op("exp", b.op("sin", tensor(b, name, (64, 96)))) for name in "xy"]

    one, other = kernels(build(layers)).regions
    assert one.factoring is not None
    assert other.factoring is not None
    assert list(one.factoring.values.values()) == list(other.factoring.values.values())
