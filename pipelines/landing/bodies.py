"""One landing's folder: writes bodies as they arrive, and verifies them against the index when they are read."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from pipelines import files
from pipelines.errors import DamagedError
from pipelines.landing.erased import Gate
from pipelines.landing.manifest import Body, Kind, Landed, Manifest, Received, Reject
from pipelines.records import REPLACEMENT, make_readable, replace_lone_surrogates

log = logging.getLogger(__name__)

BODIES, PAGES, MANIFEST, REJECTS = "bodies.zst", "pages.jsonl", "manifest.json", "rejects.jsonl"
_CHECKSUM = b',\n  "checksum": "'
# Prefixes of hidden folders during `swap`: the one that replaces a landing's folder, and the one it replaces.
_NEW, _OLD = "new", "old"

# In a list, a record with a lone surrogate is refused. A body with a single record is kept, with U+FFFD instead.
_READABLE: dict[str, Callable[[bytes], bytes]] = {
    "auth": make_readable,
    "detail": partial(replace_lone_surrogates, mark=REPLACEMENT),
}


def _codec() -> pa.Codec:
    # Level 1 compresses these bodies within a few percent of level 3, in two thirds of the time.
    return pa.Codec("zstd", compression_level=1)


class Written(msgspec.Struct, frozen=True):
    """The bodies written so far: how many, and the digest of their index."""

    bodies: int
    sha256: str


class BodyWriter:
    """Writes bodies into a folder, each compressed separately, and their index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._codec = _codec()
        self._digest = sha256()
        self._count = 0
        self._offset = 0
        self._bodies = _create(folder / BODIES)
        self._pages = _create(folder / PAGES)

    def add(self, received: Received, content: bytes) -> None:
        """Write one body."""
        frame = self._codec.compress(content, asbytes=True)
        body = Body(
            **{field: getattr(received, field) for field in Received.__struct_fields__},
            offset=self._offset,
            length=len(frame),
            size=len(content),
            sha256=sha256(content).hexdigest(),
        )
        line = msgspec.json.encode(body) + b"\n"
        self._bodies.write(frame)
        self._pages.write(line)
        self._digest.update(line)
        self._offset += len(frame)
        self._count += 1

    def flush(self) -> Written:
        """Flush the buffers so that the bodies can be read. They are not durable yet."""
        self._bodies.flush()
        self._pages.flush()
        return Written(self._count, self._digest.hexdigest())

    def seal(self) -> Written:
        """Make all bodies durable and close the files."""
        for file in (self._bodies, self._pages):
            file.close()
        for name in (BODIES, PAGES):
            files.sync(self._folder / name)
        return Written(self._count, self._digest.hexdigest())

    def close(self) -> None:
        """Close the files, ignoring I/O errors."""
        for file in (self._bodies, self._pages):
            with suppress(OSError):  # a full disk has no room for the last buffer
                file.close()


@dataclass(frozen=True)
class LandingPlace:
    """Where a day's next landing goes: the folder where it is written, and the name that makes it a landing.

    Every body passes the gate before it is written there.
    """

    snapshot_date: date
    landing: int
    partial: Path
    final: Path
    gate: Gate = field(default_factory=Gate)

    def stamped(self, manifest: Manifest, written: Written) -> Manifest:
        """Return the manifest with the day, the landing's number, the erasures, and the bodies' count and digest."""
        return msgspec.structs.replace(
            manifest,
            walks=tuple(map(self.gate.without_erased, manifest.walks)),
            erasures=self.gate.erasures,
            snapshot_date=self.snapshot_date,
            landing=self.landing,
            bodies=written.bodies,
            bodies_sha256=written.sha256,
        )

    def opened(self, draft: Manifest, written: Written) -> LandingFolder:
        """Return the folder, to be read as if the landing were finished now with this manifest."""
        return LandingFolder(self.partial, self.stamped(draft, written))

    def commit(self, manifest: Manifest, written: Written) -> Manifest:
        """Turn the folder of durable bodies into a landing; returns the manifest as written."""
        manifest = self.stamped(manifest, written)
        files.write(self.partial / MANIFEST, encode(manifest))  # this fsyncs the folder, too
        self.partial.rename(self.final)
        files.sync(self.final.parent)
        files.sync(self.final.parent.parent)
        if self.gate.recognised:
            log.warning("%d records have the email or reference id of an erased student", self.gate.recognised)
        return manifest

    def abandon(self) -> None:
        """Remove everything written."""
        shutil.rmtree(self.partial, ignore_errors=True)
        drop_if_empty(self.final.parent)


@dataclass(frozen=True)
class LandingFolder:
    """The bodies of one landing, verified against its manifest as they are read."""

    path: Path
    manifest: Manifest

    def pages(self) -> Iterator[Body]:
        """Return the index of the bodies, in the order received. Raises DamagedError."""
        try:
            content = (self.path / PAGES).read_bytes()
        except OSError as error:
            raise damaged(self.path, PAGES, type(error).__name__) from None
        if sha256(content).hexdigest() != self.manifest.bodies_sha256:
            raise damaged(self.path, PAGES, "its digest is not the manifest's")
        decoder = msgspec.json.Decoder(Body)
        return (decoder.decode(line) for line in content.splitlines())

    def bodies(self, set_name: str, kind: Kind | None = None) -> Iterator[Landed]:
        """Return one set's bodies that count (of one `kind`, if given), in the order received. Raises DamagedError."""
        walk = self.manifest.walk(set_name)
        counted = walk.counted if walk else ()
        found = self.manifest.found(set_name)
        pages = [
            body
            for body in self.pages()
            if body.set == set_name
            and kind in (None, body.kind)
            and (body.kind != "walk" or body.walk in counted)
            and (body.kind != "search" or body.sought in found)
        ]
        return (landed(body, content) for body, content in self.contents(pages))

    def everything(self, set_name: str) -> Iterator[tuple[Body, bytes]]:
        """Return all bodies of one set, whether or not they count, each as it was received. Raises DamagedError."""
        return self.contents([body for body in self.pages() if body.set == set_name])

    def contents(self, pages: Iterable[Body]) -> Iterator[tuple[Body, bytes]]:
        """Yield bodies as they were received, each with its index entry. Raises DamagedError."""
        codec = _codec()
        try:
            file = (self.path / BODIES).open("rb")
        except OSError as error:
            raise damaged(self.path, BODIES, type(error).__name__) from None
        with file:
            for body in pages:
                yield body, self._content(file, codec, body)

    def _content(self, file: BinaryIO, codec: pa.Codec, body: Body) -> bytes:
        try:
            file.seek(body.offset)
            content: bytes = codec.decompress(file.read(body.length), decompressed_size=body.size, asbytes=True)
        except (OSError, pa.ArrowException) as error:
            raise damaged(self.path, BODIES, type(error).__name__) from None
        if len(content) != body.size or sha256(content).hexdigest() != body.sha256:
            raise damaged(self.path, BODIES, f"the body of {body.set} page {body.page} is not what was landed")
        return content


def landed(body: Received, content: bytes) -> Landed:
    """Return a body as flattening receives it, with unreadable text replaced: see `records`."""
    readable = _READABLE.get(body.kind, replace_lone_surrogates)(content)
    return Landed(body.set, body.kind, body.page, readable, body.sought, body.received_at)


def encode(manifest: Manifest) -> bytes:
    """Return the content of a manifest's file: JSON whose last field is the checksum of all before it."""
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=2).removesuffix(b"\n}")
    return body + _CHECKSUM + sha256(body).hexdigest().encode() + b'"\n}\n'


def decode(content: bytes) -> Manifest:
    """Return the manifest in a file's content. Raises ValueError if it is not as it was written."""
    body, _, checksum = content.rpartition(_CHECKSUM)
    if checksum[:64] != sha256(body).hexdigest().encode():
        raise ValueError("the checksum differs")
    return msgspec.json.decode(content, type=Manifest)


def rejects(folder: Path) -> list[Reject]:
    """Return the refused records of a landing, in order. Raises DamagedError."""
    decoder = msgspec.json.Decoder(Reject)
    try:
        return [decoder.decode(line) for line in (folder / REJECTS).read_bytes().splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise damaged(folder, REJECTS, type(error).__name__) from None


def drop_if_empty(day: Path) -> None:
    """Remove a day's folder if it holds no landing."""
    with suppress(OSError):  # it does
        day.rmdir()


def swap(folder: Path, write: Callable[[Path], None]) -> None:
    """Replace a landing's folder by one that `write` fills. After a kill, `settle` completes or undoes it."""
    new, old = (folder.with_name(f".{which}-{folder.name}") for which in (_NEW, _OLD))
    files.empty(new)
    write(new)
    files.sync(new)
    folder.rename(old)
    new.rename(folder)
    files.sync(folder.parent)
    shutil.rmtree(old)


def settle(day: Path) -> int:
    """Complete or undo killed swaps in a day's folder; returns the number of leftover folders."""
    found = sorted(each for each in files.names(day) if each.startswith((f".{_NEW}-", f".{_OLD}-")))
    for each in found:
        landing = day / each.partition("-")[2]
        if each.startswith(f".{_OLD}-") and not landing.exists():
            (day / each).rename(landing)
            files.sync(day)
        else:
            shutil.rmtree(day / each)
    return len(found)


def name(folder: Path) -> str:
    """Return a landing's name for messages."""
    return f"raw/{folder.parent.name}/{folder.name}"


def damaged(folder: Path, file: str, problem: str) -> DamagedError:
    """Return the error for a landing's file that cannot be used."""
    return DamagedError(
        f"{name(folder)}/{file} cannot be used ({problem}). Restore {name(folder)} from a backup of raw/ and run"
        " `rollbook rebuild`. To go on without this landing, move it out of raw/ and run `rollbook rebuild"
        " --accept-loss`."
    )


def _create(path: Path) -> BinaryIO:
    # Private from the start. The chmod restores owner bits that the umask removed.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, files.PRIVATE_FILE)
    path.chmod(files.PRIVATE_FILE)
    return os.fdopen(file, "wb")
