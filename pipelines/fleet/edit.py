"""Adds an institution to `institutions.toml`. What is in the file stays as it is."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines import files, settings
from pipelines.errors import ArgumentError
from pipelines.institutions import check_name


def add(name: str, values: Mapping[str, Any]) -> Path:
    """Add an institution with these settings, creating the file if needed; returns the file.

    A secret is a table: `{"env": "NAME"}` or `{"file": "/path"}`. Raises ArgumentError for a name that exists, and
    SettingError for an invalid name or a malformed setting; then the file is unchanged.
    """
    check_name(name)
    path, mode, text = settings.registry_path().resolve(), files.PRIVATE_FILE, ""  # a symlink is kept
    if path.exists():
        mode, text = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8").rstrip("\n") + "\n\n"
        known = settings.registry()
        if known is not None and name in known.institutions:
            raise ArgumentError(f"{path.name} already has an institution {name}: edit its settings there")
    lines = [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    with files.replacing(path, mode) as aside:
        aside.write_text(text.lstrip("\n") + "\n".join(lines) + "\n", encoding="utf-8")
        settings.check_registry(aside, path.name, name)
    return path


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{{ {', '.join(f'{key} = {_toml(text)}' for key, text in value.items())} }}"
