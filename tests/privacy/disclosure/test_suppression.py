"""The rules of suppression, attacked with the exact sums: rounding comes on top of them."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import numpy as np
import pytest

from pipelines.privacy.disclosure import span as spans
from pipelines.privacy.disclosure import suppression
from pipelines.privacy.disclosure.span import Cell, Span
from pipelines.privacy.disclosure.suppression import MARGIN, at_most, protected, separable
from tests.privacy.disclosure.adversary import Puzzle, isolated

K = 10
Groups = Sequence[Collection[int]]


def cells(*groups: Collection[int]) -> list[Cell]:
    return [Cell(np.array(sorted(group), dtype=np.int64), rank) for rank, group in enumerate(groups)]


def kept(*groups: Collection[int], k: int = K, fixed: Groups = ()) -> list[int]:
    """Which of the groups may be shown beside each other; those that come first are wanted most."""
    size = 1 + max(s for group in (*groups, *fixed) for s in group)
    _, new = separable(cells(*fixed), cells(*groups), size, k)
    return sorted(new)


def span(first: int, last: int) -> range:
    """The students from `first` up to and with `last`."""
    return range(first, last + 1)


@pytest.mark.parametrize(("size", "shown"), [(K - 1, []), (K, [0]), (K + 1, [0])])
def test_a_group_is_shown_from_k_students_on(size: int, shown: list[int]) -> None:
    assert kept(span(1, size)) == shown


@pytest.mark.parametrize(("others", "shown"), [(0, [0, 1]), (1, [0]), (K - 1, [0]), (K, [0, 1]), (K + 1, [0, 1])])
def test_a_group_in_another_leaves_nobody_or_k_students_over(others: int, shown: list[int]) -> None:
    assert kept(span(1, 30 + others), span(1, 30)) == shown


@pytest.mark.parametrize("size", [K - 1, K, K + 1])
def test_of_a_course_all_classes_are_shown_or_at_most_all_but_two(size: int) -> None:
    course, big, small = span(1, 50 + size), (span(1, 25), span(26, 50)), span(51, 50 + size)
    assert kept(course, *big, small) == ([0, 1] if size < K else [0, 1, 2, 3])


def test_students_in_two_classes_of_a_course_do_not_follow_from_its_figures() -> None:
    course = span(1, 24)
    overlapping = (span(1, 13), span(12, 24))  # students 12 and 13 are in both
    assert isolated([course, *overlapping], 25, 3)  # the classes' sums less the course's is that of the two
    assert kept(course, *overlapping, k=3) == [0, 1]


@pytest.mark.parametrize("change", ["one leaves", "one comes", "one for another"])
def test_a_group_that_one_student_leaves_or_joins_is_not_shown_beside_the_earlier_one(change: str) -> None:
    later = {"one leaves": span(1, 24), "one comes": span(1, 26), "one for another": span(2, 26)}[change]
    assert kept(later, fixed=[span(1, 25)]) == []


def test_a_group_that_k_students_left_is_shown_beside_the_earlier_one() -> None:
    assert kept(span(1, 20), fixed=[span(1, 30)]) == [0]


def test_figures_that_are_out_under_a_lower_k_show_nothing_more() -> None:
    usable, new = separable(cells(span(1, 25), span(1, 20)), [], 26, K)
    assert (sorted(usable), new) == ([0], set())


def test_overlapping_groups_that_take_turns_leave_nobody_over() -> None:
    # Each student is in two of three groups: half of (A + B - C) is the sum of those in A and B.
    a, b, c = span(1, 4), span(5, 8), span(9, 20)
    groups = ([*a, *b], [*a, *c], [*b, *c])
    assert isolated(groups, 21, 5)
    found = kept(*groups, k=5)
    assert len(found) == 2
    assert isolated([groups[n] for n in found], 21, 5) is None


def random_groups(rng: random.Random, size: int) -> list[list[int]]:
    """A school, courses of two classes each, students at random in some of them."""
    courses = rng.randint(1, 4)
    classes = {(course, part): set[int]() for course in range(courses) for part in range(2)}
    for student in range(size):
        for course in rng.sample(range(courses), rng.randint(0, courses)):
            classes[course, rng.randint(0, 1)].add(student)
            if rng.random() < 0.1:
                classes[course, rng.randint(0, 1)].add(student)
    whole = [sorted(classes[course, 0] | classes[course, 1]) for course in range(courses)]
    groups = [list(range(size)), *whole, *(sorted(those) for those in classes.values())]
    later: list[list[int]] = []
    for group in groups:  # a week later somebody left, somebody else came
        if group and rng.random() < 0.3:
            come = {rng.randrange(size)} if rng.random() < 0.5 else set[int]()
            later.append(sorted({*group} - {rng.choice(group)} | come))
    return [group for group in (*groups, *later) if group]


@pytest.mark.parametrize("seed", range(30))
def test_in_random_schools_no_combination_concerns_fewer_than_k_students(seed: int) -> None:
    rng = random.Random(seed)
    size, k = rng.randint(8, 18), rng.choice((3, 4))
    groups = random_groups(rng, size)
    _, new = separable([], cells(*groups), size, k)
    assert isolated([groups[n] for n in sorted(new)], size, k) is None


def test_without_the_rule_the_attack_finds_somebody_in_most_random_schools() -> None:
    found = 0
    for seed in range(12):
        rng = random.Random(seed)
        size, k = rng.randint(8, 18), rng.choice((3, 4))
        found += isolated(random_groups(rng, size), size, k) is not None
    assert found >= 9


def test_large_disjoint_classes_are_all_shown() -> None:
    classes = [span(25 * n, 25 * n + 24) for n in range(20)]
    assert len(kept(span(0, 499), *classes)) == 21


def exact_exposures(found: Span, k: int) -> list[float]:
    """Every student's exposure, from the projection as it is defined."""
    whole = np.array([[n in cell.students for cell in found.cells] for n in range(found.size)])[:, found.left].astype(
        float
    )
    projection = np.abs(whole @ np.linalg.pinv(whole))
    others = np.sort(projection - np.diag(projection.diagonal()), axis=1)[:, ::-1]
    return [float(e) for e in projection.diagonal() + others[:, : k - 2].sum(axis=1)]


@pytest.mark.parametrize("seed", range(8))
def test_an_exposure_is_what_the_projection_says_or_on_the_same_side_of_the_limit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(spans, "NEAR", rng.choice((4, 8, 12)))
    size, k, enough = rng.randint(20, 60), rng.choice((2, 3, 6)), 0.95
    found = Span(cells(*random_groups(rng, size)), size)
    found.drop([1, len(found.cells) - 1])
    exposures = found.exposures(np.arange(size), k, enough).tolist()
    for exposure, true in zip(exposures, exact_exposures(found, k), strict=True):
        assert (exposure < enough) == (true < enough)
        assert exposure >= true - 1e-3 if exposure < enough else exposure <= true + 1e-3


def test_what_cells_leave_open_is_what_the_projection_says_after_some_were_taken_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(1)
    monkeypatch.setattr(spans, "STRIP", 3)
    monkeypatch.setattr(spans, "BLOCK", 1)
    groups = random_groups(rng, 40)
    found = Span(cells(*groups), 40)
    found.drop([0, 3])
    whole = np.array([[n in cell.students for cell in found.cells] for n in range(40)])[:, found.left].astype(float)
    values = np.arange(40) / 40
    expected = whole @ np.linalg.pinv(whole) @ values
    assert np.abs(found.combined(found.nearest(found.sums(values))) - expected).max() < 1e-3


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_an_exposure_rises_by_no_more_than_what_a_cell_took_away_allows(seed: int) -> None:
    everybody, k = np.arange(60), 6
    found = Span(cells(*random_groups(random.Random(seed), 60)), 60)
    own, whole = found.own(everybody), np.array(exact_exposures(found, k))
    found.drop([len(found.cells) - 1])
    after = np.array(exact_exposures(found, k))
    assert (after > whole + 1e-6).any()
    assert (after <= at_most(whole, own - found.own(everybody), k) + 1e-6).all()


def test_no_more_cells_are_shown_than_can_be_weighed_and_those_that_are_wanted_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suppression, "LARGEST", 3)
    groups = [span(25 * n, 25 * n + 24) for n in range(6)]
    assert kept(span(200, 204), *groups) == [1, 2, 3]
    assert kept(*groups, fixed=[span(200, 230), span(300, 330)]) == [0]
    assert kept(*groups, fixed=[span(200, 230), span(300, 330), span(400, 430), span(500, 530)]) == []


# --- values ----------------------------------------------------------------------------------------------------------


def shown_of(values: Sequence[float], *groups: Collection[int], k: int = K, counted: bool) -> list[int]:
    size = len(values)
    able, _ = separable([], cells(*groups), size, k)
    assert not able
    _, able = separable([], cells(*groups), size, k)
    found = protected(able, cells(*groups), np.array(values, dtype=float), k=k, counted=counted)
    return sorted(found)


@pytest.mark.parametrize(
    ("active", "shown"), [(0, []), (K - 1, []), (K, [0]), (30 - K, [0]), (30 - K + 1, []), (30, [])]
)
def test_a_count_is_shown_when_k_count_and_k_do_not(active: int, shown: list[int]) -> None:
    assert shown_of([1] * active + [0] * (30 - active), range(30), counted=True) == shown


@pytest.mark.parametrize(("average", "shown"), [(0.0, []), (0.02, []), (0.5, [0]), (0.98, []), (1.0, [])])
def test_an_average_near_0_or_100_is_not_shown(average: float, shown: list[int]) -> None:
    assert shown_of([average] * 30, range(30), counted=False) == shown


def test_all_or_nothing_among_those_between_two_groups_is_not_shown() -> None:
    # All twelve of the larger group who are not in the smaller one are at 1.
    larger, smaller = range(40), range(28)
    assert shown_of([0.5] * 28 + [1.0] * 12, larger, smaller, counted=False) == [0]
    assert shown_of([1] * 14 + [0] * 14 + [1] * 12, larger, smaller, counted=True) == [0]


def test_a_suppressed_count_does_not_follow_from_the_rest_of_its_course() -> None:
    # Three classes of four may be shown, and the fourth would follow from the course.
    course, classes = range(120), [range(30 * n, 30 * n + 30) for n in range(4)]
    values = [1, 0] * 45 + [1] * 28 + [0] * 2
    found = shown_of(values, course, *classes, counted=True)
    assert 4 not in found
    assert not {0, 1, 2, 3} <= set(found)
    assert len(found) == 3


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("counted", [True, False])
def test_in_random_schools_every_value_stays_open_though_the_exact_sums_are_known(seed: int, counted: bool) -> None:
    rng = random.Random(seed)
    size, k = rng.randint(24, 60), 3
    groups = random_groups(rng, size)
    middle = rng.choice((0.1, 0.5, 0.9))
    values = [float(rng.random() < middle) if counted else rng.choice((0.0, 1.0, rng.random())) for _ in range(size)]
    _, able = separable([], cells(*groups), size, k)
    shown = protected(able, cells(*groups), np.array(values), k=k, counted=counted)
    puzzle = Puzzle(range(size))
    for n in shown:
        total = sum(values[s] for s in groups[n])
        puzzle.learn(groups[n], total - 1e-7, total + 1e-7)
    for student in range(size):
        least, most = puzzle.range_of([student])
        assert least <= values[student] + 1e-6
        assert most >= values[student] - 1e-6
        assert most - least > MARGIN
    for n in set(range(len(groups))) - shown:
        least, most = puzzle.range_of(groups[n])
        assert most - least > MARGIN * min(k, len(groups[n]))


@pytest.mark.parametrize("rule", ["_certain", "_followed", "_unbalanced_differences"])
def test_each_rule_of_values_is_needed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    larger, smaller = range(40), range(28)
    course, classes = range(120), [range(30 * n, 30 * n + 30) for n in range(4)]
    cases: dict[str, tuple[Sequence[float], Groups, bool]] = {
        "_certain": ([0.5] * 28 + [1.0] * 12, (larger, smaller), False),
        "_followed": ([1, 0] * 45 + [1] * 28 + [0] * 2, (course, *classes), True),
        "_unbalanced_differences": ([1] * 14 + [0] * 14 + [1] * 9 + [0] * 3, (larger, smaller), True),
    }
    values, groups, counted = cases[rule]
    held = shown_of(values, *groups, counted=counted)
    monkeypatch.setattr(suppression, rule, lambda *_: (set(), set()) if rule == "_followed" else set())
    assert len(shown_of(values, *groups, counted=counted)) > len(held)
