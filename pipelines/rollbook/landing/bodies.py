"""A landing's folder: writes each body at once, and verifies bodies against the index when reading."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from rollbook.errors import DamagedError
from rollbook.landing import formats
from rollbook.landing.manifest import Body, Discard, LandedBody, Manifest, Received, Reject, RequestKind
from rollbook.landing.records import make_readable, readable_detail
from rollbook.util import files

BODIES, PAGES, MANIFEST = "bodies.zst", "pages.jsonl", "manifest.json"
REJECTS, DISCARD = "rejects.jsonl", "discard.json"
_CHECKSUM = b',\n  "checksum": "'
# The prefix of a landing's folder during a replacement.
OLD = ".old-"

# In a list, a record with a lone surrogate is refused. A body with a single record is kept, with U+FFFD instead.
_READABLE: dict[str, Callable[[bytes], bytes]] = {"auth": make_readable, "detail": readable_detail}


# Level 1 compresses the bodies within a few percent of level 3, in two thirds of the time.
_CODEC = pa.Codec("zstd", compression_level=1)


class BodyWriter:
    """Writes bodies into a folder, each compressed separately, and their index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offset = 0
        self._bodies = _create(folder / BODIES)
        self._pages = _create(folder / PAGES)

    def add(self, received: Received, content: bytes) -> None:
        """Write a body."""
        frame = _CODEC.compress(content, asbytes=True)
        body = Body(
            **{field: getattr(received, field) for field in Received.__struct_fields__},
            offset=self._offset,
            length=len(frame),
            size=len(content),
            sha256=sha256(content).hexdigest(),
        )
        self._bodies.write(frame)
        self._pages.write(msgspec.json.encode(body) + b"\n")
        self._offset += len(frame)

    def flush(self) -> None:
        """Flush the buffers so that the bodies can be read. They are not durable yet."""
        self._bodies.flush()
        self._pages.flush()

    def seal(self) -> None:
        """Make all bodies durable and close the files."""
        for file, name in ((self._bodies, BODIES), (self._pages, PAGES)):
            file.close()
            files.sync(self._folder / name)

    def close(self) -> None:
        """Close the files, ignoring I/O errors."""
        for file in (self._bodies, self._pages):
            with suppress(OSError):  # a full disk has no room for the last buffer
                file.close()


@dataclass(frozen=True)
class LandingFolder:
    """The bodies of a landing, verified against the manifest during the reading."""

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

    def bodies(self, set_name: str, kind: RequestKind | None = None) -> Iterator[LandedBody]:
        """Return one set's bodies that count (of one `kind`, if given), in the order received, one at a time.

        Raises DamagedError.
        """
        return (landed(body, content) for body, content in self.contents(self.counted(set_name, kind)))

    def counted(self, set_name: str, kind: RequestKind | None = None) -> list[Body]:
        """Return the index entries of one set's bodies that count (of one `kind`, if given), in the order received.

        For a walked set these are the pages of the counted walks, then the pages of searches that found a record (a
        search that found nothing is kept as evidence, but states nothing). Raises DamagedError.
        """
        walk, by_search = self.manifest.walk(set_name), self.manifest.found(set_name)
        return [
            body
            for body in self.pages()
            if body.set == set_name
            and kind in (None, body.kind)
            and (body.kind != "walk" or (walk is not None and body.walk in walk.counted))
            and (body.kind != "search" or body.sought in by_search)
        ]

    def contents(self, pages: Iterable[Body]) -> Iterator[tuple[Body, bytes]]:
        """Yield bodies as received, each with the index entry. Raises DamagedError."""
        try:
            with (self.path / BODIES).open("rb") as file:
                for body in pages:
                    file.seek(body.offset)
                    content = _CODEC.decompress(file.read(body.length), decompressed_size=body.size, asbytes=True)
                    if sha256(content).hexdigest() != body.sha256:
                        raise damaged(self.path, BODIES, f"{body.set} page {body.page} is not what was landed")
                    yield body, content
        except (OSError, pa.ArrowException) as error:
            raise damaged(self.path, BODIES, type(error).__name__) from None

    def rejects(self) -> list[Reject]:
        """Return the refused records, in order. Raises DamagedError."""
        decoder = msgspec.json.Decoder(Reject)
        try:
            return [decoder.decode(line) for line in (self.path / REJECTS).read_bytes().splitlines()]
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise damaged(self.path, REJECTS, type(error).__name__) from None

    def discards(self) -> list[Discard]:
        """Return how the landing was discarded, as written, in order. Raises DamagedError."""
        try:
            return msgspec.json.decode((self.path / DISCARD).read_bytes(), type=list[Discard])
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise damaged(self.path, DISCARD, type(error).__name__) from None


def landed(body: Received, content: bytes) -> LandedBody:
    """Return a body as flattening takes it; the bodies with one record with unreadable text replaced."""
    text = _READABLE[body.kind](content) if body.kind in _READABLE else content
    return LandedBody(body.set, body.kind, body.page, text, body.sought, body.received_at)


def encode(manifest: Manifest) -> bytes:
    """Return the content of a manifest's file: JSON whose last field is the checksum of all before it."""
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=2).removesuffix(b"\n}")
    return body + _CHECKSUM + sha256(body).hexdigest().encode() + b'"\n}\n'


def decode(content: bytes, path: str) -> Manifest:
    """Return the manifest in a file's content. Raises OtherVersionError, and ValueError if it is not as written."""
    body, _, checksum = content.rpartition(_CHECKSUM)
    # Before the format number, which may be what is damaged: every format has the checksum.
    if checksum[:64] != sha256(body).hexdigest().encode():
        raise ValueError("the checksum differs")
    return formats.decode(content, Manifest, path)


def swap(folder: Path, write: Callable[[Path], object]) -> None:
    """Replace a landing's folder by a folder that `write` fills. After a kill, `RawStore.sweep` completes or undoes the
    replacement.
    """
    new = files.empty(folder.with_name(f".{folder.name}.new{files.PARTIAL}"))
    write(new)
    files.sync(new)
    old = files.move(folder, folder.with_name(f"{OLD}{folder.name}"))
    files.move(new, folder)
    files.sync(folder.parent)
    shutil.rmtree(old)


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
    path.touch(files.PRIVATE_FILE, exist_ok=False)
    files.set_mode(path, files.PRIVATE_FILE)  # restores owner bits that the umask removed
    return path.open("wb")
