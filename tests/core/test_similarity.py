import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hippo_core.errors import InputError
from hippo_core.similarity import (
    cosines,
    min_max,
    pairs_above,
    pairs_of_few,
    round_significant,
    tail_lengths,
    top_k,
    unit_rows,
)

finite = st.floats(allow_nan=False, allow_infinity=False)


def vectors(n, d, *, seed=0, groups=None):
    """Unit rows; with groups, rows of one group are close."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, d))
    if groups:
        rows = random.normal(size=(groups, d))[random.integers(0, groups, n)] + 0.5 * rows
    return unit_rows(rows)


# unit_rows


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_rows_have_length_one(dtype):
    rows = (np.random.default_rng(0).normal(size=(500, 40)) * 10).astype(dtype)
    scaled = unit_rows(rows)
    assert scaled.dtype == np.float32
    lengths = np.linalg.norm(scaled.astype(float), axis=1)
    assert np.abs(lengths - 1).max() < 1e-6
    directions = np.einsum("ij,ij->i", scaled.astype(float), rows.astype(float))
    assert directions == pytest.approx(np.linalg.norm(rows.astype(float), axis=1))


def test_a_row_of_zeros_stays():
    assert unit_rows([[0.0, 0.0], [0.0, 2.0]]).tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-45, 1e38, 1e200, 1.7e308])
def test_rows_of_any_size_can_be_scaled(size):
    assert unit_rows([[size, -size]])[0] == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)])


def test_a_scaled_row_does_not_depend_on_the_others():
    rows = np.random.default_rng(1).normal(size=(3000, 96))
    together = unit_rows(rows)
    for place in (0, 1, 1499, 2999):
        assert unit_rows(rows[place : place + 1])[0].tobytes() == together[place].tobytes()
    assert unit_rows(np.asfortranarray(rows)).tobytes() == together.tobytes()


def test_the_given_matrix_is_not_changed():
    rows = np.array([[3.0, 4.0]])
    unit_rows(rows)
    assert rows.tolist() == [[3, 4]]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_the_first_row_that_is_not_finite_is_named(wrong):
    rows = np.ones((2000, 100))
    rows[[1234, 1500], 7] = wrong
    with pytest.raises(InputError, match="vector 1234 is not finite"):
        unit_rows(rows)


def test_only_a_matrix_has_rows():
    with pytest.raises(InputError, match=r"\(n, d\), got \(2,\)"):
        unit_rows([1.0, 2.0])
    assert unit_rows(np.empty((0, 5))).shape == (0, 5)
    assert unit_rows(np.empty((5, 0))).shape == (5, 0)


# cosines


def test_cosines_are_exact_to_float64():
    rows, query = vectors(700, 384), np.random.default_rng(2).normal(size=384)
    exact = [math.fsum(row.astype(float) * query) for row in rows]
    assert np.abs(cosines(rows, query) - exact).max() < 1e-13


def test_a_cosine_does_not_depend_on_place_or_company():
    rows, query = vectors(2000, 384), vectors(1, 384, seed=9)[0]
    together = cosines(rows, query)
    order = np.random.default_rng(3).permutation(2000)
    assert np.abs(cosines(rows[order], query) - together[order]).max() < 1e-12
    alone = [cosines(rows[place : place + 1], query)[0] for place in range(0, 2000, 37)]
    assert np.abs(alone - together[::37]).max() < 1e-12


def test_a_query_has_the_dimension_of_the_rows():
    with pytest.raises(InputError, match=r"shape \(4,\) like the rows, got \(3,\)"):
        cosines(vectors(2, 4), np.zeros(3))
    assert cosines(np.empty((0, 4), dtype=np.float32), np.zeros(4)).shape == (0,)


# min_max


@given(st.lists(st.floats(-1e100, 1e100), min_size=1))
def test_scaled_scores_reach_from_zero_to_one(scores):
    scaled = min_max(scores)
    assert scaled.max() == 1
    alike = max(scores) - min(scores) <= 1e-10 * max(map(abs, scores))
    assert scaled.min() == (1 if alike else 0)
    order = np.argsort(scores, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()


def test_equal_scores_are_all_the_best():
    assert min_max([-2.0, -2.0]).tolist() == [1, 1]
    assert min_max([0.0]).tolist() == [1]
    assert min_max([0.3, 0.1 + 0.2]).tolist() == [1, 1]
    assert min_max([]).tolist() == []


# round_significant


@given(finite, st.integers(1, 15))
def test_rounding_moves_a_number_by_half_a_unit_at_most(number, digits):
    if abs(number) > 1e308:
        number /= 10  # what rounds up beyond the largest float has no answer
    rounded = round_significant([number], digits)[0]
    unit = 10.0 ** (math.floor(math.log10(abs(number))) + 1 - digits) if number else 0.0
    assert abs(rounded - number) <= 0.5 * unit * (1 + 1e-6) + 2 * math.ulp(number)
    assert rounded == pytest.approx(float(f"{rounded:.{digits - 1}e}"), rel=1e-15)


@given(st.lists(finite, min_size=2), st.integers(1, 15))
def test_rounding_is_monotone_odd_and_idempotent(numbers, digits):
    numbers = np.sort(np.array(numbers) / 10)
    rounded = round_significant(numbers, digits)
    assert (np.diff(rounded) >= 0).all()
    assert round_significant(-numbers, digits).tolist() == (-rounded).tolist()
    assert round_significant(rounded, digits).tolist() == rounded.tolist()


@pytest.mark.parametrize("exponent", range(-307, 308, 3))
def test_neighbours_of_a_power_of_ten_round_to_one_float(exponent):
    power = float(f"1e{exponent}")
    near = [power * (1 - 2e-11), math.nextafter(power, 0), power, math.nextafter(power, math.inf)]
    assert len(set(round_significant(near).tolist())) == 1


def test_rounding_gives_the_float_that_one_would_write():
    numbers = [0.12345678904999, -1.5, 1e-5, 123456789012.0, 0.0, 2 / 3]
    written = [0.123456789, -1.5, 1e-5, 123456789000.0, 0.0, 0.6666666667]
    assert round_significant(numbers).tolist() == written


def test_infinities_and_the_smallest_floats_can_be_rounded():
    smallest = math.ulp(0.0)
    numbers = [math.inf, -math.inf, smallest, -smallest, 2.2250738585072014e-308, -0.0]
    assert round_significant(numbers).tolist() == pytest.approx(numbers, rel=1e-9)
    assert round_significant(0.3333).shape == ()
    assert round_significant([]).shape == (0,)


def test_the_number_of_digits_is_checked():
    for digits in (0, 16):
        with pytest.raises(InputError, match=f"from 1 to 15, got {digits}"):
            round_significant([1.0], digits)


# top_k

# A few values, some of which agree in ten digits, so that ties at the border are the rule.
tied_scores = st.sampled_from(
    [0.0, -0.0, 0.5, 0.5 + 1e-12, 0.5 - 1e-12, 1.0, 1 - 1e-13, 0.25, -0.25, -0.25 + 1e-13, 1e-320]
)


def fully_sorted(scores, k):
    rounded = round_significant(scores).tolist()
    return sorted(range(len(scores)), key=lambda place: (-rounded[place], place))[:k]


@given(st.lists(tied_scores | st.floats(allow_nan=False), max_size=40), st.integers(0, 45))
@example([math.inf, math.inf, 1.0], 1)
@example([-math.inf, 1.0, -math.inf], 2)
@example([0.5, 0.5 + 1e-12], 1)
def test_the_best_are_those_of_a_full_sort(scores, k):
    scores = [score for score in scores if abs(score) < 1e308 or math.isinf(score)]
    assert top_k(scores, k).tolist() == fully_sorted(scores, k)


@pytest.mark.parametrize("k", [1, 10, 4999, 5000, 6000])
def test_the_best_of_many_are_those_of_a_full_sort(k):
    random = np.random.default_rng(4)
    scores = np.round(random.random(5000), 2) + 1e-13 * random.random(5000)
    assert top_k(scores, k).tolist() == fully_sorted(scores, k)


def test_the_lower_position_wins_a_tie():
    assert top_k(np.zeros(1000), 3).tolist() == [0, 1, 2]
    assert top_k([0.7 - 1e-12, 0.7, 0.7 + 1e-12], 2).tolist() == [0, 1]
    assert top_k([0.7 - 1e-9, 0.7, 0.7 + 1e-9], 2).tolist() == [2, 1]


def test_k_is_not_negative_and_scores_are_numbers():
    with pytest.raises(InputError, match="k must be at least 0, got -1"):
        top_k([1.0], -1)
    with pytest.raises(InputError, match="score 1 is not a number"):
        top_k([1.0, math.nan], 1)
    assert top_k([], 3).dtype == top_k([1.0], 3).dtype == top_k([1.0, 2.0], 1).dtype == np.int64


# pairs_above


def all_dots(left, right):
    return left.astype(float) @ right.astype(float).T


def as_dict(pairs):
    assert len({*zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)}) == len(pairs.rows)
    return {
        (i, j): cosine
        for i, j, cosine in zip(
            pairs.rows.tolist(), pairs.columns.tolist(), pairs.cosines.tolist(), strict=True
        )
    }


@pytest.mark.parametrize("threshold", [-0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("block", [1, 7, 64, 300, 1024])
def test_pairs_inside_are_those_of_brute_force(threshold, block):
    rows = vectors(150, 24, groups=20)
    dots = all_dots(rows, rows)
    expected = {(i, j) for i, j in np.argwhere(np.triu(dots >= threshold, 1)).tolist()}
    found = pairs_above(rows, None, threshold, block=block)
    assert as_dict(found).keys() == expected
    assert found.complete
    assert found.cosines == pytest.approx(dots[found.rows, found.columns], abs=1e-15)
    assert np.lexsort((found.columns, found.rows)).tolist() == [*range(len(expected))]


@pytest.mark.parametrize("block", [1, 16, 1024])
def test_pairs_between_are_those_of_brute_force(block):
    left, right = vectors(90, 24, groups=9), vectors(130, 24, seed=1, groups=20)
    right[:30] = left[30:60]
    found = pairs_above(left, right, 0.6, block=block)
    dots = all_dots(left, right)
    assert as_dict(found).keys() == {(i, j) for i, j in np.argwhere(dots >= 0.6).tolist()}
    assert found.cosines == pytest.approx(dots[found.rows, found.columns], abs=1e-15)


def test_new_rows_against_all_complete_the_pairs_of_the_old():
    rows = vectors(400, 48, groups=40)
    old, new = rows[:300], rows[300:]
    united = as_dict(pairs_above(old, None, 0.7))
    united |= {(i, 300 + j): c for (i, j), c in as_dict(pairs_above(old, new, 0.7)).items()}
    united |= {(300 + i, 300 + j): c for (i, j), c in as_dict(pairs_above(new, None, 0.7)).items()}
    assert united == as_dict(pairs_above(rows, None, 0.7))


def test_a_cosine_of_a_pair_is_the_same_in_any_company_and_order():
    rows = vectors(300, 100, groups=30)
    together = as_dict(pairs_above(rows, None, 0.6))
    order = np.random.default_rng(6).permutation(300)
    shuffled = as_dict(pairs_above(rows[order], None, 0.6, block=37))
    assert together == {
        (*sorted((int(order[i]), int(order[j]))),): c for (i, j), c in shuffled.items()
    }
    for (i, j), cosine in list(together.items())[::50]:
        assert pairs_above(rows[[j]], rows[[i]], -1).cosines.tolist() == [cosine]


def test_a_pair_at_the_threshold_itself_is_found():
    rows = vectors(60, 384, groups=6)
    for (i, j), cosine in as_dict(pairs_above(rows, None, 0.5)).items():
        assert pairs_above(rows[[i]], rows[[j]], cosine).cosines.tolist() == [cosine]
        assert not len(pairs_above(rows[[i]], rows[[j]], math.nextafter(cosine, 2)).rows)


def test_beyond_its_limit_the_search_stops():
    rows = np.tile(vectors(1, 2048), (2000, 1))
    found = pairs_above(rows, None, 0.8, block=256, limit=1000)
    assert not found.complete
    assert 1000 < len(found.rows) < 3000
    assert (found.cosines >= 0.8).all()


def test_at_its_limit_the_search_is_complete():
    rows = np.tile(vectors(1, 8), (5, 1))
    assert pairs_above(rows, None, 0.8, limit=10).complete
    assert not pairs_above(rows, None, 0.8, limit=9).complete


def test_zero_rows_are_close_to_nothing():
    rows = np.zeros((5, 4), dtype=np.float32)
    assert not len(pairs_above(rows, None, 0.8).rows)


def test_no_rows_make_no_pairs():
    none, some = np.empty((0, 4), dtype=np.float32), vectors(3, 4)
    for found in (
        pairs_above(none, None, 0),
        pairs_above(none, some, 0),
        pairs_above(some, none, 0),
    ):
        assert (found.rows.dtype, found.columns.dtype) == (np.int64, np.int64)
        assert found.cosines.shape == (0,)
        assert found.complete


def test_blocks_and_dimensions_are_checked():
    with pytest.raises(InputError, match="block must be at least 1, got 0"):
        pairs_above(vectors(2, 4), None, 0.8, block=0)
    with pytest.raises(InputError, match="4 and 5 dimensions"):
        pairs_above(vectors(2, 4), vectors(2, 5), 0.8)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_few_rows_have_the_pairs_that_all_have(data):
    d = data.draw(st.integers(1, 40))
    chance = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    centre = chance.standard_normal(d) * data.draw(st.sampled_from([0, 1, 3]))
    many = unit_rows(centre + chance.standard_normal((data.draw(st.integers(0, 50)), d)))
    few = unit_rows(centre + chance.standard_normal((data.draw(st.integers(1, 9)), d)))
    if len(many) and data.draw(st.booleans()):
        many[: len(few)] = few[: len(many)]  # some are alike
    threshold = data.draw(st.sampled_from([0.3, 0.8, 0.95, 1.0]))
    mine = pairs_of_few(few, many, tail_lengths(many), threshold)
    theirs = pairs_above(few, many, threshold)
    assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
