"""Bounds of loops: numbers where they are numbers, whole chunks of lines elsewhere."""

from tpu_inductor.schedule.arrays import Axis
from tpu_inductor.schedule.bound import (
    FAR,
    Chunks,
    Line,
    Strides,
    chunks_of,
    counted_from,
    extreme,
    number_of,
)
from tpu_inductor.schedule.parts import split_columns
from tpu_inductor.schedule.visible import Range, Visible

ROW = Line((("m", 1),), 0)


def test_constants_of_an_extreme_are_taken_together():
    assert extreme("max", Line((), 3), Line((), 5)) == Line((), 5)
    assert extreme("min", ROW, Line((), FAR)) == ROW
    assert extreme("max", extreme("max", ROW, Line((), 1)), Line((), 2)).at({"m": 0}) == 2


def test_chunks_round_and_stay_inside():
    up, down = (Chunks(Line((("m", 1),), 1), 8, up=is_up, most=4) for is_up in (True, False))
    assert [up.at({"m": m}) for m in (-9, 0, 7, 8, 100)] == [0, 1, 1, 2, 4]
    assert [down.at({"m": m}) for m in (-9, 0, 7, 8, 100)] == [0, 0, 1, 1, 4]
    assert number_of(chunks_of(Line((), 17), 8, 4, up=True)) == 3


def test_numbers_of_chunks_are_not_negative():
    chunks = Chunks(ROW, 8, up=True, most=4)
    assert extreme("min", chunks, Line((), 0)) == Line((), 0)
    assert extreme("max", chunks, Line((), 0)) == chunks


def test_strides_end_at_whole_ones():
    strides = Strides(Line((), 1), ROW, 4)
    assert [strides.at({"m": m}) for m in (0, 4, 5, 9, 12)] == [1, 1, 5, 9, 9]


def test_a_bound_may_be_counted_from_its_block():
    assert counted_from(ROW, "n").at({"m": 100, "n": 64}) == 36


def test_columns_below_the_diagonal_are_split_in_whole_and_masked_ones():
    """Rows of 8, columns of 4: row block m sees m whole columns and what the diagonal cuts."""
    rows, columns = Axis("m", (), 32, 8), Axis("n", (), 32, 32, is_reduced=True, chunk=4)
    lo = Line((), -FAR)
    visible = Visible(
        Range(lo, Line((("m", 1),), 8)), Range(lo, Line((("m", 1),), 1)), taken={3: 1}
    )
    whole, rest, cut = split_columns(visible, columns, (rows, columns), turns=2)
    assert (whole.turns, rest.turns, cut.turns) == (2, 1, 1)
    assert whole.shown == rest.shown == {3: 1}
    assert not cut.shown
    for m in range(0, 32, 8):
        seen = {"m": m}
        assert whole.span.lo.at(seen) == 0
        assert cut.span.lo.at(seen) == (m + 1) // 4
        assert cut.span.hi.at(seen) == (m + 8) // 4
    assert cut.span.mean == 2
