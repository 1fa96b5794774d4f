"""Which institution of a registry fetches which school (G11): two institutions may not fetch the same school."""

from __future__ import annotations

from filelock import FileLock

from pipelines import files
from pipelines.errors import OtherInstitutionError
from pipelines.settings import Settings, registry

SCHOOLS = "schools"  # in the fleet's folder: one file per school id, with the institution's name in it


def claim(settings: Settings, school_id: int) -> None:
    """Record that this institution fetches this school. Outside a fleet, does nothing.

    Raises OtherInstitutionError if another institution of the registry fetches it already. The claim of an institution
    that has left the registry, for example because it was renamed, no longer counts.
    """
    if settings.fleet_path is None:
        return
    folder = files.folder(settings.fleet_path / SCHOOLS)
    note = folder / str(school_id)
    with FileLock(folder / ".lock", mode=files.PRIVATE_FILE):
        owner = note.read_text() if note.is_file() else settings.institution
        if owner != settings.institution and owner in (known.institutions if (known := registry()) else ()):
            raise OtherInstitutionError(
                f"The API key of {settings.institution} belongs to institution {school_id}, which {owner} fetches"
                " already. Nothing was fetched: correct the key or the address of one of them in the registry."
            )
        if not note.is_file() or owner != settings.institution:
            files.write(note, settings.institution.encode())
