"""The machine: says what to do about operating system errors, and measures disk space.

Nothing here knows what a file is for, or reads a setting.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

MB = 10**6
# The variables for running this Python: no setting, and no variable that an institution may have put its key into.
KEPT_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUTF8"),
)
_PACKAGES = Path(__file__).resolve().parent.parent.parent
# Linux: the user who logged in, even under `sudo`; this number when nobody did.
LOGIN_UID, _NOBODY = Path("/proc/self/loginuid"), 2**32 - 1
NOTHING_LOST = "Readers keep what was published, and the next sync goes on from there."


class NotOfferedError(OSError):
    """A file system does not offer what is needed; `strerror` is a sentence that says what, and what to do."""


def message_for_error(error: OSError, root: Path) -> str | None:
    """As `message_for_errno`, for an error below `root`."""
    if isinstance(error, NotOfferedError):
        return f"{error.strerror}. {NOTHING_LOST}"
    return message_for_errno(error.errno, root, error.filename)


def message_for_errno(number: int | None, root: Path, file: object = None) -> str | None:
    """Return what an errno means for files below `root`, and what to do; None if an operator cannot fix it."""
    if number not in _MESSAGES:
        return None
    place = Path(os.fsdecode(file)) if isinstance(file, (str, bytes)) else root
    folder = place.parent if place is not root else root
    left = in_bytes(free(place)) if number == errno.ENOSPC else ""  # asking the disk may fail for the same reason
    says = _MESSAGES[number].format(
        root=root, file=place, folder=folder, left=left, who=account(), kind=file_system(place)
    )
    return f"{says} {NOTHING_LOST}"


def errno_in(text: str) -> int | None:
    """Return the errno whose text a library's message quotes; None if `message_for_errno` has no message for it."""
    return next((number for number in _MESSAGES if os.strerror(number) in text), None)


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, such as `ext4` or `cifs`, as Linux names it."""
    best, kind = "", "of an unknown type"
    with suppress(OSError):  # not on every system, and not below every folder
        place = str(existing(path).resolve())
        for line in Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines():
            _, written, name, *_ = line.split(" ")
            mount = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), written)
            if len(mount) >= len(best) and f"{place}/".startswith(f"{mount.rstrip('/')}/"):
                best, kind = mount, name
    return kind


def existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def free(path: Path) -> int:
    """Return the bytes that this account may still write on the disk of `path`."""
    return shutil.disk_usage(existing(path)).free


def bare_environment() -> dict[str, str]:
    """The environment of a process of ours that needs no settings, so no key either: the same package, little else."""
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, (str(_PACKAGES), environment.get("PYTHONPATH"))))}


def size(path: Path) -> int:
    """Return the bytes on disk of a file, or of all files below a folder; a hard-linked file counts once."""
    seen: dict[tuple[int, int], int] = {}
    below = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)  # skips what is gone
    for file in (path,) if path.is_file() else below:
        with suppress(OSError):  # removed in the meantime
            stat = file.lstat()
            seen[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(seen.values())


def in_bytes(count: float) -> str:
    """Format a number of bytes for people (decimal units)."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit in ("bytes", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, and those that these have; none where /proc is missing."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            state, parent = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
            parents[int(stat.parent.name)] = -1 if state == "Z" else int(parent)
    found = [process]
    for each in found:
        found += [number for number, parent in parents.items() if parent == each]
    return found[1:]


def account() -> str:
    """Return the name of the account that runs this. From the system: environment variables can be set to anything."""
    return name_of_account(os.geteuid())


def login() -> str:
    """Return the account that logged in, from the kernel's record or else from sudo; empty if neither says."""
    with suppress(OSError, ValueError):
        if (uid := int(LOGIN_UID.read_text(encoding="ascii"))) != _NOBODY:
            return name_of_account(uid)
    return os.environ.get("SUDO_USER", "")[:64]


def person() -> str:
    """Return who decides: the account that logged in, if known, else the one that runs this."""
    return login() or account()


def name_of_account(uid: int) -> str:
    """Return an account's name, or its number if it has none here."""
    with suppress(ImportError, KeyError):  # there is no `pwd` on Windows, and a container may lack a name for the id
        import pwd

        return pwd.getpwuid(uid).pw_name
    return str(uid)


_NOT_ALLOWED = (
    "This account ({who}) may not use {file}. Run Rollbook as the account that it belongs to, or give the whole"
    " warehouse to this one (chown -R {who} {root})."
)
_TOO_MANY = "This account may not open more files at once (ulimit -n shows how many). Raise that."
_IN_USE = (
    "{file} cannot be replaced: another program has it open, or its file system ({kind}) does not allow it. Close what"
    " uses it (an analyst's notebook, a virus scanner, a backup), then run the sync again."
)
_MESSAGES = {
    errno.ENOSPC: "The disk is full: {left} are left where {folder} is. Make room (`rollbook prune --dry-run` shows"
    " what Rollbook itself could delete), then run the sync again.",
    errno.EDQUOT: "This account ({who}) has used up its quota on the disk of {root}. Raise it or make room.",
    errno.EROFS: "{file} cannot be written: its disk is mounted read-only. Mount it for writing, or set"
    " ROLLBOOK_WAREHOUSE to a folder elsewhere.",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EFBIG: "A file below {root} would be larger than this account or its disk allows (ulimit -f shows the"
    " account's limit). Raise it, then run the sync again.",
    errno.EBUSY: _IN_USE,
    errno.ETXTBSY: _IN_USE,
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
    errno.EIO: "The disk of {file} reports an error. Check it first (dmesg, smartctl); then, to recover what it lost,"
    " restore raw/ from a backup and run `rollbook rebuild`.",
}
