"""Whether a key may fill a warehouse (G11): one institution, one warehouse; and in a fleet, no school twice.

What the warehouses hold decides: an institution's claim on a school begins with the first landing that counts, and ends
when its warehouse no longer has one.
"""

from __future__ import annotations

from contextlib import suppress

from pipelines.landing.raw import RawStore
from pipelines.settings import Settings, registry


def why_refused(settings: Settings, school_id: int, bound_to: int | None) -> str:
    """Why the records of this school may not be fetched into this warehouse; empty if they may.

    `bound_to` is the school that the warehouse holds already.
    """
    if bound_to not in (None, school_id):
        return (
            f"The API key belongs to institution {school_id}, this warehouse to institution {bound_to}: set"
            " ROLLBOOK_API_KEY to this institution's key, or ROLLBOOK_WAREHOUSE to another folder. If the warehouse was"
            " filled with another institution's key by mistake, discard what it landed (`rollbook discard`)"
        )
    if (holder := _holder(settings, school_id)) is not None:
        return (
            f"The API key of {settings.institution} belongs to institution {school_id}, whose records {holder} holds"
            " already: correct the key or the address of the one that is wrong. If it is"
            f" {holder}, also discard what it landed (`rollbook --institution {holder} discard`)"
        )
    return ""


def _holder(settings: Settings, school_id: int) -> str | None:
    """The other institution of the registry whose warehouse holds this school; None outside a fleet."""
    known = registry() if settings.institution else None
    for name in known.institutions if known else ():
        if name != settings.institution:
            with suppress(OSError):  # a warehouse that cannot be read stops nobody else
                if RawStore(settings.common_path / name / "raw").school_id() == school_id:
                    return name
    return None
