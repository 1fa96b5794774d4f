"""What an adversary learns from released figures who knows the method and every other student's records.

warehouse/README.md states what a longer campaign found: ten schools, more students, up to 36 releases.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from statistics import mean

import numpy as np
import pytest

from rollbook.privacy import aggregates
from rollbook.privacy.aggregates import figure

# A student's completion, as the adversary guesses it: right within ten points.
GRID = np.arange(0, 101, 2.0)
NEAR = 10
TRIES = 300

Group = Collection[int]
Figure = tuple[str, str]


@dataclass
class School:
    """Students with a completion each, in courses of very different sizes; course 0 is the school."""

    values: list[float]
    groups: dict[int, set[int]]


def made_up(seed: int, students: int = 500, courses: int = 36) -> School:
    random = np.random.default_rng(seed)
    values = np.round(100 * random.beta(4, 2, students), 1).tolist()
    wanted = random.pareto(1.2, courses) + 0.3
    groups: dict[int, set[int]] = {0: set(range(students))}
    for student in range(students):
        for course in random.choice(courses, 6, replace=False, p=wanted / wanted.sum()):
            groups.setdefault(1 + int(course), set()).add(student)
    return School(values, groups)


def shown(school: School, secret: str, without: int = -1) -> dict[int, Figure]:
    """A release of the completions by group."""
    found = {}
    for number, group in school.groups.items():
        those = group - {without}
        values = sorted((school.values[s] for s in those), reverse=True)
        members = hash(frozenset(those))
        if of_group := figure(secret, "completion", len(those), sum(values), values[:4], members):
            found[number] = of_group
    return found


def band(of_group: Figure) -> int:
    return int(of_group[1].split(" to ")[0]) // aggregates._BAND


def noise(random: np.random.Generator) -> np.ndarray:
    """What the four largest contributions may be multiplied with."""
    weights = np.array(aggregates._WEIGHTS)
    signs = random.choice((-1, 1), (TRIES, 4))
    return np.asarray(weights * signs * random.uniform(0.5, 1.5, (TRIES, 4)))


def chances(others: list[float], value: float, drawn: np.ndarray) -> np.ndarray:
    """How likely each band of a group's average is, if the unknown student has this value."""
    largest = sorted([*others, value], reverse=True)[:4]
    averages = (sum(others) + value + drawn @ np.array(largest)) / (len(others) + 1)
    bands = 100 // aggregates._BAND
    seen = np.bincount(np.clip(averages // aggregates._BAND, 0, bands - 1).astype(int), minlength=bands)
    return np.asarray((seen + 0.5) / (TRIES + bands / 2))


def is_right(likely: np.ndarray, value: float) -> bool:
    """Whether the value with most of the probability near it is the right one."""
    best = max(GRID, key=lambda guess: likely[np.abs(GRID - guess) <= NEAR].sum())
    return bool(abs(best - value) <= NEAR)


def prior(school: School, student: int) -> np.ndarray:
    """What is likely without any release: values like the others'."""
    others = np.array([v for s, v in enumerate(school.values) if s != student])
    near = np.exp(-0.5 * ((GRID[:, None] - others) / 3) ** 2).sum(1)
    return np.asarray(near / near.sum())


def guessed(school: School, releases: list[dict[int, Figure]], students: Collection[int], seed: int) -> list[bool]:
    """For each student, whether the adversary's best guess of the completion is right."""
    drawn = noise(np.random.default_rng(seed))
    hits = []
    for student in students:
        likely = np.log(prior(school, student))
        for number, group in school.groups.items():
            if student not in group or not any(number in release for release in releases):
                continue
            others = [school.values[s] for s in group if s != student]
            table = np.log([chances(others, value, drawn) for value in GRID])
            for release in releases:
                if number in release:
                    likely = likely + table[:, band(release[number])]
        hits.append(is_right(np.exp(likely - likely.max()), school.values[student]))
    return hits


def test_who_knows_all_others_guesses_a_student_hardly_better_than_without_the_release() -> None:
    hits: list[bool] = []
    blind: list[bool] = []
    for seed in range(2):
        school = made_up(seed)
        students = Random(seed).sample(range(500), 40)
        blind += [is_right(prior(school, s), school.values[s]) for s in students]
        hits += guessed(school, [shown(school, f"{seed} {n}") for n in range(3)], students, seed)
    assert mean(hits) <= mean(blind) + 0.08


def test_the_same_adversary_finds_nearly_all_in_exact_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack works: it is the noise and the bands that stop it."""
    monkeypatch.setattr(aggregates, "_WEIGHTS", (0.0, 0.0, 0.0, 0.0))
    monkeypatch.setattr(aggregates, "_BAND", 1)
    school = made_up(1)
    assert mean(guessed(school, [shown(school, "exact")], range(40), 1)) >= 0.9


def test_courses_of_the_same_students_have_the_same_figure() -> None:
    values = [37.0 + n for n in range(40)]
    for secret in map(str, range(20)):
        assert len({figure(secret, "score", 40, sum(values), values[:-5:-1], 77) for _ in range(30)}) == 1
