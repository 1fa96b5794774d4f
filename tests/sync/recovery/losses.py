"""Who is listed, and what may happen to the published file and to the folder of older ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import duckdb

from tests.support.nights import House
from tests.support.records import student, students

# Who is listed on the third night; number 100 is new.
LISTED = [*students(60), student(100)]


def delete(house: House) -> None:
    house.lose_published()


def delete_the_link(house: House) -> None:
    house.published.unlink()


def delete_the_version(house: House) -> None:
    house.published.resolve().unlink()


def delete_all_versions(house: House) -> None:
    shutil.rmtree(house.warehouse / "published")


def lead_elsewhere(house: House) -> None:
    elsewhere = house.warehouse / "mine.duckdb"
    shutil.copyfile(house.rollbook().warehouse.kept()[-1], elsewhere)
    house.published.unlink()
    house.published.symlink_to(elsewhere)


def cut_short(house: House) -> None:
    house.published.write_bytes(house.published.read_bytes()[:50_000])


def empty(house: House) -> None:
    house.published.write_bytes(b"")


def make_a_folder_of_it(house: House) -> None:
    house.lose_published()
    house.published.mkdir()
    (house.published / "somebody's file").write_text("kept")


def restore_the_first_night(house: House) -> None:
    house.rollbook().restore(house.rollbook().warehouse.kept()[-1])


def put_an_older_copy_there(house: House) -> None:
    shutil.copyfile(house.rollbook().warehouse.kept()[-1], house.published)


def change_rows(house: House) -> None:
    """An analyst opens it for writing, deletes most students and renames the others."""
    with duckdb.connect(str(house.published)) as con:
        con.execute("DELETE FROM main.students WHERE student_id <= 55")
        con.execute("UPDATE history.students SET name = 'Mine Now'")


def lose_the_build_folder_too(house: House) -> None:
    house.lose_published()
    shutil.rmtree(house.warehouse / "build")


def lose_only_the_build_folder(house: House) -> None:
    shutil.rmtree(house.warehouse / "build")


LOSSES: list[Callable[[House], None]] = [
    delete,
    delete_the_link,
    delete_the_version,
    delete_all_versions,
    lead_elsewhere,
    cut_short,
    empty,
    make_a_folder_of_it,
    restore_the_first_night,
    put_an_older_copy_there,
    change_rows,
    lose_the_build_folder_too,
    lose_only_the_build_folder,
]
