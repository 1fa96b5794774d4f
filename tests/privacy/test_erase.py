"""One student erased: found by a scan of every file before, and in none after."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipelines.errors import ArgumentError, DamagedError, HeldError
from pipelines.export.formats import Format, export
from pipelines.operations import discard as discards
from pipelines.operations import erase as erasing
from pipelines.privacy.certificate import Certificate
from pipelines.sync import always
from tests.support import canary, faults
from tests.support.nights import House, new_house, night
from tests.support.records import Records, classes, student, students

REASON = "asked for by the family, case 12"
MINE = ("main", "history", "spans")


def everybody(number: int) -> Records:
    """A night's students, the canary among them: some change, one leaves."""
    changed = student(5, name=f"Night {number}")
    return [*students(4), changed, *students(6, first=6 + number), canary.canary(is_registered=1)]


def lived(house: House, **sync: Any) -> House:
    """Six nights: details, a failed landing, a refused record, a search that finds nobody, and one that does."""
    service = house.service
    service.details = {canary.ID: {"note": "canary-detail"}} if hasattr(service, "details") else None
    house.night(1, everybody(1), classes(3), details="all", **sync)
    house.night(2, [*everybody(2)[:-1], canary.canary(summary={"total_assignments": "canary-drift"})], **sync)
    house.night(3, everybody(3), **sync)
    house.night(4, everybody(4)[:-1], **sync)
    house.night(5, everybody(5), details="changed", **sync)
    house.night(6, everybody(6), **sync)
    return house


def others(house: House) -> dict[str, list[Any]]:
    """All rows of the published file about anybody else, sorted; digests and the file's own version aside."""
    rows = {}
    with duckdb.connect(house.published, read_only=True) as con:
        names = con.execute("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        for schema, name in names:
            if (schema, name) in (("spans", "version"), ("spans", "days"), ("ops", "pages"), ("ops", "sync_sets")):
                continue
            columns = [c[0] for c in con.execute(f"SELECT * FROM {schema}.{name} LIMIT 0").description or ()]
            where = f"student_id IS DISTINCT FROM {canary.ID}" if "student_id" in columns else "TRUE"
            if name == "rejects":
                where = f"id IS DISTINCT FROM {canary.ID}"
            query = f"SELECT * FROM {schema}.{name} WHERE {where} ORDER BY ALL"
            rows[f"{schema}.{name}"] = con.execute(query).fetchall()
    return rows


def erase(house: House, **over: Any) -> Certificate:
    return erasing.erase(house.rollbook(**over), canary.ID, reason=REASON, confirm=lambda _: True, home=None)


def test_a_student_is_in_no_file_after_the_erasure_and_everybody_else_is_as_before() -> None:
    with new_house() as house:
        lived(house)
        before = others(house)
        there = canary.found(house.warehouse)
        assert {p.split("/")[0] for p in there} >= {"raw", "snapshots", "rollbook.duckdb", "published"}
        assert {t for hits in there.values() for t in hits} >= {str(canary.ID), canary.EMAIL, canary.REFERENCE}
        certificate = erase(house)
        assert canary.found(house.warehouse) == {}
        assert others(house) == before
        assert house.examined() == {rule: [] for rule in house.examined()}
        assert certificate.counts["landings"] == 6
