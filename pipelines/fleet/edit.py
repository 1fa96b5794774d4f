"""Adds, pauses and resumes an institution in `institutions.toml`. Everything else in the file is kept."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from pipelines import files, settings
from pipelines.errors import ArgumentError, SettingError
from pipelines.fleet import outcomes
from pipelines.institutions import PAUSED, Registry, check_name

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def add(name: str, values: Mapping[str, object]) -> Path:
    """Add an institution with these settings, creating the file if needed; returns the file.

    A secret is a table: `{"env": "NAME"}` or `{"file": "/path"}`. Raises ArgumentError for a name that exists, and
    SettingError for an invalid name or a malformed setting; then the file is unchanged.
    """
    check_name(name)
    path = settings.registry_path()
    known = settings.registry() if path.exists() else None
    if known is not None and name in known.institutions:
        raise ArgumentError(f"{path.name} already has an institution {name}: edit its settings there")

    def change(document: TOMLDocument) -> None:
        import tomlkit

        table = tomlkit.table()
        for key, value in values.items():
            table[key] = _inline(value) if isinstance(value, dict) else value
        if document.body:
            document.add(tomlkit.nl())
        document[name] = table

    _change(path, change, check=name)
    return path


def pause(known: Registry, name: str, reason: str) -> None:
    """Pause an institution. Raises SettingError for an unknown name, and ArgumentError without a reason."""
    asked = known[name]
    if not reason.strip():
        raise ArgumentError('Say why: add --reason "...", which is shown with the institution')

    def change(document: TOMLDocument) -> None:
        document[asked.name][PAUSED] = " ".join(reason.split())

    _change(known.path, change)


def resume(known: Registry, name: str) -> bool:
    """Resume an institution, paused here or by Rollbook; returns whether it was. Raises SettingError (unknown name)."""
    asked = known[name]

    def change(document: TOMLDocument) -> None:
        del document[asked.name][PAUSED]

    if asked.paused:
        _change(known.path, change)
    return outcomes.resume(settings.common_path() / settings.FLEET, name) or bool(asked.paused)


def _inline(value: Mapping[str, Any]) -> object:
    import tomlkit

    table = tomlkit.inline_table()
    table.update(value)
    return table


def _change(path: Path, change: Callable[[TOMLDocument], None], *, check: str = "") -> None:
    """Replace the file atomically, after the new one has been validated as a run would read it."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = path.resolve()  # a symlink is kept
    fleet = files.folder(settings.common_path() / settings.FLEET)
    with FileLock(fleet / "registry.lock", mode=files.PRIVATE_FILE):
        mode = files.PRIVATE_FILE
        text = ""
        if path.exists():
            mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8")
        try:
            document = tomlkit.parse(text)
            change(document)
        except (TOMLKitError, KeyError):
            raise SettingError(f"{path.name} has changed meanwhile, or is not valid TOML: check it first") from None
        new = tomlkit.dumps(document)
        with files.replacing(path, mode) as aside:
            aside.write_text(new, encoding="utf-8")
            settings.check_registry(aside, path.name, check)
