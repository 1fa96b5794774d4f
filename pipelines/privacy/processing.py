"""The record of processing (GDPR Art. 30): data held, purpose, storage, retention, access, recipients, erasure.

Tables and columns come from the declarations, everything else from the settings, so the record matches the
installation. What no program can know is left to the institution, and marked. `processing.md` is the template.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files as resources
from pathlib import Path
from urllib.parse import urlsplit

from pipelines import __version__, files
from pipelines.export import EXPORTS
from pipelines.privacy import access
from pipelines.settings import Settings
from pipelines.store.published import fleet_file
from pipelines.store.published.versions import FOLDER, PSEUDONYMOUS, PSEUDONYMOUS_FOLDER, PUBLISHED
from pipelines.store.published.versions import KEPT as VERSIONS_KEPT
from pipelines.store.relations import KEPT, OBSERVED
from pipelines.store.warehouse import BUILD, Warehouse
from pipelines.tables import SETS, TABLES, Column
from pipelines.text import count_of, markdown
from pipelines.views import terms, thresholds

FILL_IN = "*to be filled in*"
IDENTIFIES, ABOUT_A_STUDENT, ABOUT_A_PERSON = "identifies", "about a student", "about a person"

REPORT, RAW = "report.html", "raw"
AGGREGATES = "aggregates"


@dataclass(frozen=True)
class Held:
    """One column as the record shows it."""

    name: str
    type: str
    personal: str
    meaning: str


@dataclass(frozen=True)
class HeldTable:
    """One table as the record shows it."""

    name: str
    comment: str
    held_in: str
    columns: tuple[Held, ...]


@dataclass(frozen=True)
class Place:
    """One file or folder: its contents, its permission bits, and how long it is kept."""

    path: Path
    what: str
    mode: int
    kept: str

    @property
    def readers(self) -> str:
        """Who may read it, in words, and its mode in octal."""
        group = "its owner and its group" if self.mode & 0o040 else "its owner"
        return f"{'every account of this machine' if self.mode & 0o004 else group} ({self.mode:o})"


@dataclass(frozen=True)
class Receiver:
    """A recipient, and what it receives."""

    who: str
    what: str


@dataclass(frozen=True)
class Erasure:
    """One kind of data: when and how it is erased."""

    what: str
    when: str
    how: str


def render(settings: Settings, *, at: datetime, home: Path | None = None, run_days: int = 0) -> str:
    """Return the record as Markdown. `home` is Dagster's folder, whose runs are kept for `run_days` days."""
    from jinja2 import Environment, StrictUndefined

    # S701 wants HTML escaping; this is Markdown, and outside values are escaped for it below.
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    template = environment.from_string(resources("pipelines.privacy").joinpath("processing.md").read_text("utf-8"))
    text = template.render(
        version=__version__,
        made=f"{at:%Y-%m-%d}",
        service=_service(settings),
        encryption="https" if urlsplit(settings.base_url).scheme != "http" else "plain http on this machine",
        cron=f"`{settings.cron}`",
        timezone=settings.timezone,
        tables=list(tables()),
        places=list(places(settings, home=home, run_days=run_days)),
        receivers=list(_receivers(settings)),
        erasures=list(_erasures(settings, run_days)),
    )
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def tables() -> Iterator[HeldTable]:
    """Every table of the warehouse, with or without personal data."""
    for t in TABLES.values():
        of_student = t.parent_key == access.STUDENT_ID
        where = f"`main` (current), `history`, `snapshots` and `spans`; as received in `{RAW}/`"
        # In an object with a name, such as the teacher, the other fields are about that person.
        persons = {c.path[:-1] for c in t.columns if c.personal} - {()}
        columns = tuple(_held(c, of_student=of_student, of_person=c.path[:-1] in persons) for c in t.columns)
        yield HeldTable(t.name, t.comment, where, columns)
    for r in (*KEPT, OBSERVED):
        names = {c.name for c in r.columns}
        of_student = access.STUDENT_ID in names or {"id", "set_name"} <= names
        columns = tuple(_held(c, of_student=of_student) for c in r.columns)
        yield HeldTable(f"{r.schema}.{r.name}", r.comment, f"`{r.schema}`", columns)


def _held(c: Column, *, of_student: bool, of_person: bool = False) -> Held:
    about = ABOUT_A_STUDENT if of_student else ABOUT_A_PERSON if of_person else ""
    return Held(c.name, c.type, IDENTIFIES if c.personal else about, c.comment)


def places(settings: Settings, *, home: Path | None = None, run_days: int = 0) -> Iterator[Place]:
    """Every file and folder to which Rollbook writes records or traces of them."""
    root = settings.warehouse_path
    warehouse = Warehouse(root, settings.file_mode)
    private, open_folder = files.PRIVATE_FOLDER, warehouse.lake.folder_mode
    whole = "as long as the warehouse"
    dated = f"{count_of(settings.keep_days, 'day')}, and one night" if settings.keep_days else "without limit"
    yield Place(root / RAW, "the service's responses as received, and the records that were refused", private, dated)
    yield Place(warehouse.lake.root, "each day's records as Parquet files", open_folder, dated)
    yield Place(
        root / PUBLISHED, "for analysts: current records, history, changes (a link into the next)", settings.file_mode,
        f"{whole}; refused records {dated}",
    )  # fmt: skip
    yield Place(
        root / FOLDER, f"the current file and the {VERSIONS_KEPT} before it", open_folder,
        f"each until there are {VERSIONS_KEPT} newer ones",
    )  # fmt: skip
    named = "names students to watch" if settings.report_names else "counts only, no names"
    yield Place(root / REPORT, f"the morning page: {named}", settings.file_mode, "until the next sync")
    for name in (thresholds.FILE, terms.FILE):
        yield Place(root / name, "the institution's own configuration; no records", settings.file_mode, whole)
    yield Place(
        root / BUILD, "work in progress; altered copies of the published file", private,
        f"until the next sync; of altered copies the last {VERSIONS_KEPT}",
    )  # fmt: skip
    yield Place(root / EXPORTS, "exports written without --out", private, "until somebody removes them")
    yield Place(
        root / access.PRIVATE,
        "the access log; which code stands for which student;"
        " keyed hashes of erased students, legal holds and certificates of erasure", private,
        f"the log {count_of(settings.access_log_days, 'day')}, a month more at most; the rest {whole}",
    )  # fmt: skip
    if (mode := settings.shared_mode) is not None:
        what = "the same tables with codes instead of ids, without direct identifiers"
        yield Place(root / PSEUDONYMOUS, f"{what} (a link into the next)", mode, whole)
        entered = mode | (mode & 0o444) >> 2 | private
        yield Place(root / PSEUDONYMOUS_FOLDER, "the current pseudonymous file", entered, "each until the next sync")
    yield Place(
        root / AGGREGATES, "figures by `rollbook aggregates`; no records", open_folder, "until somebody removes them"
    )
    if (fleet := settings.fleet_path) is not None:
        yield Place(
            fleet, "this institution's tables for its fleet: Parquet files, one folder per table",
            open_folder, "each file until a sync changes its table",
        )  # fmt: skip
        yield Place(
            fleet.parent / fleet_file.FILE, "this institution's tables and those of all others, in one file",
            settings.file_mode, "until the next `rollbook fleet build`, or an erasure at any institution",
        )  # fmt: skip
        if (mode := settings.shared_mode) is not None:
            yield Place(
                fleet.parent / fleet_file.PSEUDONYMOUS,
                "this institution's tables with codes instead of ids, without direct identifiers, and those of all"
                " others that make a pseudonymous file",
                mode, "the same, or until any institution gets new codes",
            )  # fmt: skip
    if home is not None:
        kept = f"{count_of(run_days, 'day')}"
        yield Place(home, "Dagster's runs and logs: counts, ids and days, no names", private, kept)


def _receivers(settings: Settings) -> Iterator[Receiver]:
    searched = "; ".join(f"{s.name} by {' or '.join(s.names)}" for s in SETS.values() if s.names)
    yield Receiver(
        f"the records service ({_service(settings)})",
        f"searches for records that it no longer lists ({searched}), and requests for single students by id",
    )
    for address in settings.notify_names:
        yield Receiver(
            f"alerts, {markdown(address)}",
            "that a sync failed, was held, is late or is good again: the institution's name, days, counts and the"
            " reason, which may hold ids but no names of students",
        )
    if not settings.notify_names:
        yield Receiver("alerts", "nobody: `ROLLBOOK_NOTIFY` is not set")
    opened = Place(settings.warehouse_path, "", settings.file_mode, "").readers
    named = "with students' names" if settings.report_names else "with counts only"
    yield Receiver(f"accounts that may open the published file: {opened}", f"all of it, and the morning page {named}")
    ui = "Dagster's UI and the morning page: counts, ids and days, no names of students"
    yield Receiver("every account of this machine, while `rollbook serve` runs", ui)
    for name in settings.ui_names:
        yield Receiver(f"browsers that reach the UI as {markdown(name)}", ui)
    mode = settings.shared_mode
    if mode is None:
        yield Receiver("readers of the pseudonymous file", "nobody: `ROLLBOOK_PSEUDONYMOUS` is not set")
    else:
        yield Receiver(f"readers of the pseudonymous file: {Place(Path(), '', mode, '').readers}", f"`{PSEUDONYMOUS}`")
    if settings.lake:
        what = (
            "a copy of raw responses, daily snapshots, thresholds, terms, which code stands for which student, hashes"
            " of erased students, legal holds and certificates of erasure; what is erased here is erased there"
        )
        yield Receiver(f"the object store {markdown(settings.lake)}", f"{what}. Who runs it, and where: {FILL_IN}")
    yield Receiver(
        "recipients of figures by `rollbook aggregates`",
        f"figures of the school and its courses once a term, of 20 students or more, with noise. Names: {FILL_IN}",
    )
    yield Receiver(
        "recipients of an export, or of an answer to a student",
        f"its contents; the access log records when, which account and how many students. Names: {FILL_IN}",
    )


def _erasures(settings: Settings, run_days: int) -> Iterator[Erasure]:
    days = settings.keep_days
    yield Erasure(
        "raw responses, daily snapshots, refused records",
        f"{count_of(days, 'day')} after their day" if days else "never: `ROLLBOOK_KEEP_DAYS` is not set",
        "by the nightly sync, or `rollbook prune`; the history keeps their contents",
    )
    yield Erasure(
        "current rows of a student whom the service no longer lists", "the same night, once the absence is proven",
        "by the nightly sync; the history keeps them",
    )  # fmt: skip
    yield Erasure("history and changes", "never by age", "for one person: `rollbook erase`")
    yield Erasure(
        "one person", "on request", "`rollbook erase` removes a student from everything above and keeps them out"
    )
    yield Erasure(
        "lines of the access log", f"{count_of(settings.access_log_days, 'day')}, a month more at most",
        "by the nightly sync, or when the next access is logged",
    )  # fmt: skip
    if run_days:
        yield Erasure("Dagster's runs", f"{count_of(run_days, 'day')} after they ended", "by the nightly sync")
    yield Erasure("files in `exports/`", "never by age", "all of them with the next `rollbook erase`")
    yield Erasure("copies elsewhere, and backups", "not by Rollbook", f"by hand: {FILL_IN}")


def _service(settings: Settings) -> str:
    host = urlsplit(settings.base_url).hostname
    return markdown(host) if host else FILL_IN
