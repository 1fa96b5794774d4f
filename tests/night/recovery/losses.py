"""The listed students, and what may happen to the published file and to the folder of older files."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import duckdb

from rollbook.night.restore import restore
from tests.support.nights import House
from tests.support.reading import writable
from tests.support.records import student, students

# The students of the third night; number 100 is new.
LISTED = [*students(60), student(100)]


def delete(house: House) -> None:
    house.lose_published()


def delete_the_version(house: House) -> None:
    house.published.resolve().unlink()


def cut_short(house: House) -> None:
    writable(house.published).write_bytes(house.published.read_bytes()[:50_000])


def make_a_folder_of_it(house: House) -> None:
    house.lose_published()
    house.published.mkdir()
    (house.published / "somebody's file").write_text("kept")


def restore_the_first_night(house: House) -> None:
    restore(house.rollbook().writer(), house.rollbook().warehouse.kept()[-1])


def change_rows(house: House) -> None:
    """An analyst opens the file for writing, deletes most students and renames the rest."""
    with duckdb.connect(writable(house.published)) as con:
        con.execute("DELETE FROM main.students WHERE student_id <= 55")
        con.execute("UPDATE history.students SET name = 'Mine Now'")


def lose_only_the_build_folder(house: House) -> None:
    shutil.rmtree(house.warehouse / "build")


LOSSES: list[Callable[[House], None]] = [
    delete,
    delete_the_version,
    cut_short,
    make_a_folder_of_it,
    restore_the_first_night,
    change_rows,
    lose_only_the_build_folder,
]
