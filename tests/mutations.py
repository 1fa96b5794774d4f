"""Single-line mutations of the code, two or more a guarantee, each of which the everyday tests catch.

`python -m tests.mutations` makes each mutation in turn in a copy of the project and runs the tests named beside;
`python -m tests.mutations 4 17` makes only two. A mutation that no test catches is printed, and the exit code is 1.
With `--campaign` 500 nights of the campaign take the tests' place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rollbook.settings import ROOT

# The tests of `make test`.
PYTEST = ("-m", "pytest", "-q", "-x", "--no-header", "-m", "(not nights or story) and not slow and not weekly")
CAMPAIGN = ("-m", "tests.campaign", "--seed", "1", "--total", "500", "--stop")


class Mutation(NamedTuple):
    """A line of the code that is found once in `pipelines/rollbook/`, the wrong line instead, and the tests that catch
    the change.
    """

    guarantee: str
    line: str
    wrong: str
    tests: str


MUTATIONS = (
    Mutation("G1", "    _total_is_steady,\n", "", "source night"),
    Mutation("G1", "    _only_the_last_is_short,\n", "", "source night"),
    Mutation("G1", "if len(self.ids) != last.total_count:", "if False:", "source night"),
    Mutation("G1", "        if self.unreadable:", "        if False:", "source night"),
    Mutation("G2", 'answer="removed" if is_clean else "unclear"', 'answer="removed"', "source night"),
    Mutation("G2", '("no match" not in answers or finds_listed(field))', "True", "source night"),
    Mutation("G2", "if not value or not value.strip() or (", "if (", "source night"),
    Mutation("G2", "if len(vanished) > most:", "if False:", "source night"),
    Mutation("G2", 'a.set == set_name and a.answer == "removed")', "a.set == set_name)", "source night"),
    Mutation(
        "G2", 'answer="still_known") if is_found else absence', 'answer="removed") if is_found else absence', "source"
    ),
    Mutation("G2", "        if self.proof(set_name) is None:\n            return frozenset()", "", "night"),
    Mutation("G2", "self._search_uncounted(each, published, uncounted)", "pass", "night"),
    Mutation("G2", "(is_clean and field in set_.last_names)", "False", "source"),
    Mutation("G3", "NEVER_HELD_ROWS = 5", "NEVER_HELD_ROWS = 6", "night"),
    Mutation("G3", "if 100 * c.altered > changed_percent * c.before:", "if False:", "night"),
    Mutation("G3", "if not reason and manifest.verdict is Verdict.HELD:", "if False:", "night"),
    Mutation("G3", "counts if since_before is None else since_before,", "counts,", "night"),
    Mutation("G3", "2 * n.{{ total }} <= c.{{ total }}", "n.{{ total }} < c.{{ total }}", "night"),
    Mutation("G4", "if checksum[:64] != sha256(body).hexdigest().encode():", "if False:", "landing night"),
    Mutation(
        "G4",
        "        place.recovery.check_raw()\n        place.recovery",
        "        place.recovery",
        "night features/mirror",
    ),
    Mutation("G4", "self.decide(place.landings.undecided())", "pass", "night"),
    Mutation("G4", "number = max(number, recorded) + 1", "number += 1", "night"),
    Mutation("G4", 'deferred=blocked.message if blocked else "",', 'deferred="",', "night"),
    Mutation("G3", "if m.hold_digest in digests and (", "if (", "night"),
    Mutation("G5", "OR ({{ observed }}.state = 'not_stated' AND", "OR (FALSE AND", "store night"),
    Mutation("G5", "THEN 'empty' ELSE 'not_stated' END", "THEN 'not_stated' ELSE 'not_stated' END", "store night"),
    Mutation("G6", "if c.tracked and c.name not in self.key", "if c.name not in self.key", "store night"),
    Mutation("G7", "if ahead is None or ahead.composed.parts != parts:", "if ahead is None:", "night"),
    Mutation("G7", "if ahead and ahead.digest == digest and", "if ahead and", "night"),
    Mutation("G7", "WHERE a.id IS NULL OR g.landing > a.landing", "", "store night"),
    Mutation("G7", "latest AS (SELECT id, MAX(ord) AS ord", "latest AS (SELECT id, MIN(ord) AS ord", "store night"),
    Mutation("G7", "AND NOT was_absent)", ")", "store night"),
    Mutation("G7", "FILTER (NOT LIST_CONTAINS(refused_columns, '{{ c.name }}'))", "", "store night"),
    Mutation("G8", "ZONES_APART = timedelta(days=1)", "ZONES_APART = timedelta(days=2)", "source night"),
    Mutation("G8", "if abs(passed_there - passed) > CLOCKS_APART:", "if False:", "night"),
    Mutation("G8", "    if day > today:", "    if False:", "night"),
    Mutation("G9", "if 1 < records <= rejected:", "if False:", "night"),
    Mutation("G9", "rejected > MAX_REJECTED * records", "rejected >= MAX_REJECTED * records", "night"),
    Mutation(
        "G10",
        "files.move(aside, self.link)",
        "self.link.unlink(missing_ok=True); files.move(aside, self.link)",
        "store night",
    ),
    Mutation(
        "G10", "        return self.folder / now.strftime(name)", "        return self.folder / name", "store night"
    ),
    Mutation("G10", "was is None or since != last or since <= was", "was is None or since <= was", "features/feed"),
    Mutation("G10", "record(con, file.since, sorted(file.touched)", "record(con, file.since, ()", "features/feed"),
    Mutation("G11", "if bound_to not in (None, school_id):", "if False:", "source night"),
    Mutation("G12", "follow_redirects=False,", "follow_redirects=True,", "source"),
    Mutation(
        "G12", 'if parts.scheme == "http" and not is_loopback(parts.hostname):', "if False:", "test_settings.py source"
    ),
    Mutation("G12", "PRIVATE_FILE = 0o600", "PRIVATE_FILE = 0o644", "test_files.py store landing night"),
    Mutation("G12", "if not (is_sent or is_kept or is_first):", "if False:", "ui/test_guard.py"),
    Mutation(
        "G12",
        'can_keep = self.is_browsers(asked.headers["host"].lower(), address)',
        "can_keep = True",
        "ui/test_guard.py",
    ),
    Mutation(
        "G13",
        "_TRANSIENT = frozenset({408, 421, 425, 429})",
        "_TRANSIENT = frozenset({403, 408, 421, 425, 429})",
        "source",
    ),
    Mutation("G13", "if error.retry_after > remaining:", "if False:", "source"),
    Mutation("G14", "lock.acquire(timeout=0)", "pass", "night"),
    Mutation("G14", "        self.place.recovery.sweep()\n        self._erasures", "        self._erasures", "night"),
)


def place(line: str, root: Path) -> Path:
    """The file with a line. Raises ValueError if the line is not found once."""
    paths = [path for path in sorted(root.rglob("*")) if path.suffix in (".py", ".sql") and line in path.read_text()]
    if len(paths) != 1 or paths[0].read_text().count(line) != 1:
        raise ValueError(f"{line!r} is found in {[str(path) for path in paths]}")
    return paths[0]


def fails(mutation: Mutation | None, how: tuple[str, ...]) -> bool:
    """Run tests in a copy of the project, with a mutation if there is one; returns whether any fails."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).exists():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        if mutation is not None:
            path = place(mutation.line, copy / "pipelines" / "rollbook")
            path.write_text(path.read_text().replace(mutation.line, mutation.wrong))
        here = os.environ | {"PYTHONPATH": str(copy / "pipelines")}  # not the code that is installed
        done = subprocess.run([sys.executable, *how], cwd=copy, env=here, capture_output=True, text=True, check=False)
        beginnings = ("FAILED", "ERROR", "python -m")
        sys.stdout.writelines(f"{line}\n" for line in done.stdout.splitlines() if line.startswith(beginnings))
        return done.returncode == 1


def main(numbers: list[int], *, campaign: bool) -> int:
    """Make the mutations with some numbers, or all, once the tests pass without any."""
    if not numbers and fails(None, CAMPAIGN if campaign else PYTEST):
        sys.stdout.write("Without any mutation these tests fail, so they catch nothing.\n")
        return 1
    missed = 0
    for number, mutation in enumerate(MUTATIONS, start=1):
        if not numbers or number in numbers:
            how = CAMPAIGN if campaign else (*PYTEST, *(f"tests/{name}" for name in mutation.tests.split()))
            caught = fails(mutation, how)
            missed += not caught
            outcome = "caught" if caught else "NOT CAUGHT"
            sys.stdout.write(f"{number} {mutation.guarantee} {outcome}: {mutation.line}\n")
            sys.stdout.flush()
    return min(missed, 1)


if __name__ == "__main__":
    asked = sys.argv[1:]
    sys.exit(main([int(each) for each in asked if each.isdecimal()], campaign="--campaign" in asked))
