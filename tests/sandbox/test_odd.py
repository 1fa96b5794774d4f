"""An odd service is read like the plain one; and `doctor` says what was odd."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest

from rollbook.night import sync
from rollbook.sandbox import Sandbox
from tests.support.nights import findings_of, folder, tables_in
from tests.support.reading import rows
from tests.support.warehouses.days import FIRST, KEY, rollbook

pytestmark = pytest.mark.nights

SEEN = (
    *("a number in quotes", "a timestamp for a date", "an entry twice", "0000-00-00 for no date"),
    *("an object with numbers for a list", "false for an object", "false or true for 0 or 1"),
    *(
        "a word for no value",
        "a blank text for no value",
        "[] for an object",
        "gzip of several members",
        "a page that JSON does not allow",
    ),
)


@pytest.mark.timeout(240)
def test_an_odd_service_is_stored_as_the_plain_one() -> None:
    tables, refused, says = [], [], ""
    for odd in (False, True):
        with folder() as warehouse, Sandbox(330, day=FIRST, api_key=KEY, odd=odd) as sandbox:
            for number in range(3):
                sandbox.day = FIRST + timedelta(days=number)
                assert sync(rollbook(warehouse, sandbox.url, today=sandbox.day).writer()).manifest.proven
            book = rollbook(warehouse, sandbox.url, today=sandbox.day)
            with duckdb.connect(book.warehouse.published_file, read_only=True) as con:
                tables.append(tables_in(con))
            refused += rows(
                book.warehouse.published_file, "SELECT DISTINCT table_name, column_name FROM ops.refused_values"
            )
            says = " ".join(finding.says for finding in findings_of(book))
    assert tables[0] == tables[1]
    assert refused == []
    for oddity in SEEN:
        assert f"{oddity} (" in says.partition("answers in its own way")[2]
