"""The machine: says what to do about operating system errors, and measures disk space.

Nothing here knows what a file is for, or reads a setting.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

MB = 10**6
# What a process needs to run this Python: no setting, and no variable that an institution may have put its key into.
KEPT_VARIABLES = (
    *("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUTF8"),
)
_PACKAGES = Path(__file__).resolve().parent.parent.parent
# Linux: the user who logged in, even under `sudo`; this number when nobody did.
_LOGIN_UID, _NOBODY = Path("/proc/self/loginuid"), 2**32 - 1
NOTHING_LOST = "Readers keep what was published, and the next sync goes on from there."


def message_for_errno(number: int | None, root: Path, file: object = None) -> str | None:
    """Return what an errno means for files below `root`, and what to do; None if an operator cannot fix it."""
    if number not in _MESSAGES:
        return None
    place = Path(os.fsdecode(file)) if isinstance(file, (str, bytes)) else root
    folder = place.parent if place is not root else root
    left = in_bytes(free(place)) if number == errno.ENOSPC else ""  # asking the disk may fail for the same reason
    return f"{_MESSAGES[number].format(root=root, file=place, folder=folder, left=left, who=account())} {NOTHING_LOST}"


def errno_in(text: str) -> int | None:
    """Return the errno whose text a library's message quotes; None if `message_for_errno` has no message for it."""
    return next((number for number in _MESSAGES if os.strerror(number) in text), None)


def existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def free(path: Path) -> int:
    """Return the bytes that this account may still write on the disk of `path`."""
    return shutil.disk_usage(existing(path)).free


def memory() -> int:
    """Return the bytes of memory of this machine, or the limit of its container; 1 GB if unknown."""
    with suppress(AttributeError, ValueError, OSError):  # not on every system
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with suppress(ValueError, OSError):  # no container, or no limit (`max`)
            total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
        return total
    return 1000 * MB


def bare_environment() -> dict[str, str]:
    """The environment of a process of ours that needs no settings, so no key either: the same package, little else."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, (str(_PACKAGES), kept.get("PYTHONPATH"))))}


def size(path: Path) -> int:
    """Return the bytes on disk of a file, or of all files below a folder; a hard-linked file counts once."""
    seen: dict[tuple[int, int], int] = {}
    below = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)  # skips what is gone
    for found in (path,) if path.is_file() else below:
        with suppress(OSError):  # removed in the meantime
            stat = found.lstat()
            seen[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
    return sum(seen.values())


def in_bytes(count: float) -> str:
    """Format a number of bytes for people (decimal units)."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit in ("bytes", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def account() -> str:
    """Return the name of the account that runs this. From the system: environment variables can be set to anything."""
    return _name_of(os.geteuid())


def login() -> str:
    """Return the account that logged in, from the kernel's record or else from sudo; empty if neither says."""
    with suppress(OSError, ValueError):
        if (uid := int(_LOGIN_UID.read_text(encoding="ascii"))) != _NOBODY:
            return _name_of(uid)
    return os.environ.get("SUDO_USER", "")[:64]


def person() -> str:
    """Return who decides: the account that logged in, if it is known, else the one that runs this."""
    return login() or account()


def _name_of(uid: int) -> str:
    with suppress(ImportError, KeyError):  # there is no `pwd` on Windows, and a container may lack a name for the id
        import pwd

        return pwd.getpwuid(uid).pw_name
    return str(uid)


_NOT_ALLOWED = (
    "This account ({who}) may not use {file}. Run Rollbook as the account that it belongs to, or give the whole"
    " warehouse to this one (chown -R {who} {root})."
)
_TOO_MANY = "This account may not open more files at once (ulimit -n shows how many). Raise that."
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
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
    errno.EIO: "The disk of {file} reports an error. Check it first (dmesg, smartctl); then, to recover what it lost,"
    " restore raw/ from a backup and run `rollbook rebuild`.",
}
