"""Finishes an erasure: the writer's own, or one that a killed writer left unfinished."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pipelines.errors import CheckError, ExpiredError
from pipelines.privacy.erasure.certificate import Certificate

if TYPE_CHECKING:
    from pipelines.sync.rollbook import Rollbook


def finish(rollbook: Rollbook, *, full_refresh: Callable[[], object]) -> Certificate | None:
    """Remove erased students from every place that still holds them, and publish; returns the certificate, if any.

    `full_refresh` makes the next file from the lake alone, if the published file fails the checks.
    """
    keep = rollbook.settings.keep_days
    shown_from = rollbook.retention.kept_from(keep) if keep else None
    publish = partial(rollbook.publisher.publish, shown_from=shown_from, cleaned=True)

    def checked() -> bool:
        try:
            return publish() is not None
        except CheckError:
            if rollbook.landings.expired_days():
                raise
            full_refresh()
            return publish() is not None

    rollbook.erasure.progress = rollbook.progress
    return rollbook.erasure.finish(checked)


def finish_unless_expired(finish: Callable[[], object]) -> None:
    """Call `finish`, but ignore an ExpiredError: a rebuild that accepts the loss makes a file to finish with."""
    with suppress(ExpiredError):
        finish()
