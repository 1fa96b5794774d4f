"""Files of features that are gone, which may hold pupils' records."""

from __future__ import annotations

from pathlib import Path

from rollbook.rights.leftovers import leftovers


def test_files_of_missing_features_are_found_in_school_and_district(tmp_path: Path) -> None:
    school, district = tmp_path / "ash", tmp_path / "district"
    for folder in (school / "private", district / "state"):
        folder.mkdir(parents=True)
    for file in (school / "report.html", school / "private" / "codes.json", tmp_path / "district.duckdb"):
        file.touch()
    assert leftovers(school, district, ("pseudonymous", "morning", "district")) == []
    assert leftovers(school, district, ("pseudonymous",)) == [
        school / "report.html",
        tmp_path / "district.duckdb",
        district / "state",
    ]
    assert leftovers(school, None, ("morning",)) == [school / "private" / "codes.json"]
