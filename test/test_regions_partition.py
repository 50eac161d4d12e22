"""Partitions: which equations become kernels together, in which order, and why the rest do not."""

import kernel_graphs as K
import pytest
from gates import V5E
from kernel_graphs import BOOL, F32, I64, build, dot, row_sum, tensor

from tpu_inductor.graph import attrs as A
from tpu_inductor.graph.builder import Builder
from tpu_inductor.graph.core import Graph
from tpu_inductor.graph.types import TensorType
from tpu_inductor.regions.partition import partition_regions
from tpu_inductor.regions.region import Partition, Region, Tier
from tpu_inductor.regions.verify import verify_partition
from tpu_inductor.target import target


def partition(graph: Graph, prefer: str = "pallas", **options: object) -> Partition:
    made = partition_regions(graph, V5E, prefer=prefer, **options)
    verify_partition(made)
    return made


def tiers(graph: Graph, **options: object) -> list[str]:
    return [r.tier.value for r in partition(graph, **options).regions]


def only(graph: Graph) -> Region:
    (region,) = partition(graph).regions
    assert region.tier is Tier.PALLAS
    return region


def reads(region: Region) -> list[str]:
    return [v.name for v in region.inputs]


def test_norms_and_softmax_are_one_kernel_that_reads_once():
    assert reads(only(build(K.softmax))) == ["x"]
    assert reads(only(build(K.layer_norm))) == ["x", "weight", "bias"]
    assert sorted(reads(only(build(K.rms_norm)))) == ["residual", "weight", "x"]
    assert len(only(build(K.rms_norm)).outputs) == 2


def test_a_matmul_takes_bias_gelu_residual_and_cast():
    region = only(build(K.linear_gelu))
    assert sorted(reads(region)) == ["bias", "residual", "weight", "x"]


def test_reductions_over_the_same_rows_join():
    assert len(only(build(K.row_extremes, (64, 1000))).outputs) == 2
    assert len(only(build(K.group_moments)).outputs) == 2


def test_a_scalar_between_two_reductions_does_not_join():
    def normalised(b: Builder):
        x = tensor(b, "x", (64, 64))
        total = b.reduce("reduce_sum", x, (0, 1))
        return b.op("mul", x, b.op("rsqrt", b.reshape(total, (1, 1))))

    assert "pallas" in tiers(build(normalised))


def test_masks_and_broadcasts_are_made_again_in_every_kernel():
    """A causal mask that two kernels use is an array of neither."""

    def twice(b: Builder):
        x, y = tensor(b, "x", (64, 64)), tensor(b, "y", (64, 64))
        i, j = b.iota((64, 64), K.I32, 0), b.iota((64, 64), K.I32, 1)
        mask = b.op("ge", i, j)
        return [b.op("select", mask, v, b.lit(0, F32)) for v in (x, y)]

    regions = partition(build(twice)).regions
    inputs = {v.name for r in regions for v in r.inputs if r.tier is Tier.PALLAS}
    assert inputs <= {"x", "y", "ge"}


def test_the_xla_tier_joins_neighbours_and_keeps_reasons():
    def wide(b: Builder):
        x = tensor(b, "x", (64,), I64)
        return b.one("cumsum", b.op("add", x, x), attrs=A.Axis(0))

    (region,) = partition(build(wide)).regions
    assert region.tier is Tier.XLA
    assert region.reason == "kernels do not compute in i64; cumsum has no kernel, XLA runs it"


def test_what_xla_does_as_well_is_left_to_it():
    def fill(b: Builder):
        return b.op("exp", b.full((64, 64), F32, 1))

    (region,) = partition(build(fill)).regions
    assert (region.tier, region.reason) == (Tier.XLA, "it reads no tensor")

    def copy(b: Builder):
        return b.convert(b.transpose(tensor(b, "x", (64, 64)), (1, 0)), K.BF16)

    (region,) = partition(build(copy), prefer="auto").regions
    assert (region.tier, region.reason) == (Tier.XLA, "a copy")


def test_a_step_between_xla_operations_stays_with_them():
    def rotate(b: Builder):
        x = b.slice(tensor(b, "x", (64, 64)), 1, 0, 32)
        return b.one("concat", b.op("neg", x), x, attrs=A.Axis(1))

    (region,) = partition(build(rotate), prefer="auto").regions
    assert "XLA fuses it with its neighbours" in region.reason
    assert tiers(build(rotate)) == ["xla", "pallas", "xla"]


def lone_matmul(b: Builder):
    return dot(b, tensor(b, "x", (64, 64)), tensor(b, "w", (64, 64)))


def test_a_lone_matmul_may_be_a_kernel_on_a_tpu_alone():
    graph = build(lone_matmul)
    assert tiers(graph, prefer="auto") == ["pallas"]
    (region,) = partition_regions(graph, target("cpu"), prefer="auto").regions
    assert (region.tier, region.reason) == (Tier.XLA, "a matmul without epilogue")


@pytest.mark.parametrize("feeds", [True, False])
def test_a_lone_matmul_stays_with_what_xla_runs_beside_it(feeds):
    def beside(b: Builder):
        x, w = tensor(b, "x", (64, 64)), tensor(b, "w", (64, 64))
        if feeds:
            return b.one("cumsum", dot(b, x, w), attrs=A.Axis(1))
        return dot(b, b.one("cumsum", x, attrs=A.Axis(1)), w)

    (region,) = partition(build(beside), prefer="auto").regions
    assert "a matmul without epilogue beside what XLA runs" in region.reason
    assert "pallas" in tiers(build(beside))


def test_what_follows_a_product_of_xla_is_fused_into_it_by_xla():
    def scaled(b: Builder):
        x, w = tensor(b, "x", (1024, 1024), K.I32), tensor(b, "w", (1024, 1024), K.I32)
        attrs = A.Dot((1,), (0,), (), (), "highest", K.I32)
        product = b.one("dot", x, w, attrs=attrs)
        return b.op("exp", b.op("mul", b.convert(product, F32), tensor(b, "scale", (1024,))))

    (region,) = partition(build(scaled), prefer="auto").regions
    assert "XLA fuses it into the dot that feeds it" in region.reason
    assert "pallas" in tiers(build(scaled))


def test_options_limit_kernels():
    graph = build(apart)
    assert tiers(graph) == ["pallas", "pallas"]
    assert tiers(graph, prefer="xla") == ["xla"]


def apart(b: Builder):
    return [b.op("exp", tensor(b, name, (64, 64))) for name in "xy"]


def with_eager(b: Builder):
    x = b.op("exp", tensor(b, "x", (64, 64)))
    call = A.EagerCall("torch.foo", (A.Hole(0),), (), "no lowering", False)
    (y,) = b.at(b.origin, "foo", ()).eager(call, [x], [TensorType((64, 64), F32)])
    return [b.op("exp", y), b.op("neg", x)]


def test_an_eager_call_stands_between_two_programs():
    made = partition(build(with_eager))
    assert [s.is_eager for s in made.segments] == [False, True, False]
    assert [r.reason for r in made.regions if r.tier is Tier.EAGER] == ["no lowering"]
    first = made.segments[0]
    assert "neg" in str(first.regions[0])


def test_a_matmul_is_not_joined_by_a_neighbour_that_reads_its_residual():
    def neighbours(b: Builder):
        x, w, residual = (tensor(b, name, (64, 64)) for name in ("x", "w", "residual"))
        return [b.op("add", dot(b, x, w), residual), b.op("exp", residual)]

    text = str(partition(build(neighbours)))
    assert tiers(build(neighbours)) == ["pallas", "pallas"]
    assert "a matmul is joined by what it feeds alone" in text


def test_readers_along_different_axes_stay_apart():
    def rows_and_rows(b: Builder):
        w, x, y = tensor(b, "w", (96,)), tensor(b, "x", (64, 96)), tensor(b, "y", (32, 96))
        return [b.op("mul", x, w), b.op("mul", y, w)]

    assert tiers(build(rows_and_rows)) == ["pallas", "pallas"]
    assert "smaller than the region's iteration space" in str(partition(build(rows_and_rows)))


def test_a_long_chain_is_one_kernel():
    def long(b: Builder):
        x = tensor(b, "x", (8, 128))
        for _ in range(300):
            x = b.op("sin", x)
        return x

    assert len(only(build(long)).eqns) == 300


def test_regions_have_names_of_their_operators():
    names = [r.name for r in partition(build(apart)).regions]
    assert names == ["exp", "exp.2"]
    assert only(build(K.softmax)).name == "reduce_max_sub_exp_reduce_sum_etc"


def test_the_cpu_makes_the_same_regions():
    for graph in (build(K.softmax), build(K.linear_gelu), build(apart)):
        on_cpu = partition_regions(graph, target("cpu"), prefer="pallas")
        assert [str(r) for r in on_cpu.regions] == [str(r) for r in partition(graph).regions]


def test_results_of_a_graph_may_be_inputs_views_and_constants():
    def odd(b: Builder):
        x = tensor(b, "x", (4, 6))
        return [x, b.transpose(x, (1, 0)), b.full((2,), BOOL, True), row_sum(b, x), x]

    made = partition(build(odd))
    assert {r.tier for r in made.regions} == {Tier.PALLAS, Tier.XLA}


def test_what_is_small_stays_with_xla_beside_it():
    def after_sum(b: Builder, rows: int):
        sums = b.one("cumsum", tensor(b, "x", (rows, 1024)), attrs=A.Axis(0))
        return b.op("mul", b.op("exp", b.op("neg", sums)), b.lit(2, F32))

    (region,) = partition(build(after_sum, 64), prefer="auto").regions
    assert "too small for a launch" in region.reason
    assert "pallas" in tiers(build(after_sum, 4096), prefer="auto")


@pytest.mark.parametrize("is_read_in_order", [True, False])
def test_a_product_that_is_transposed_afterwards_is_left_to_xla(is_read_in_order):
    def heads(b: Builder):
        x, w = tensor(b, "x", (512, 1024)), tensor(b, "w", (1024, 1024))
        product = dot(b, x, w)
        turned = b.transpose(b.reshape(product, (512, 8, 128)), (1, 0, 2))
        return [turned, product] if is_read_in_order else turned

    found = tiers(build(heads), prefer="auto")
    assert ("pallas" in found) == is_read_in_order
