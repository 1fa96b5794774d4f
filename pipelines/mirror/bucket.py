"""The object store, through obstore: put, get, list, delete. Its errors become MirrorError.

obstore itself retries requests, with back-off, and uses TLS unless the URL names this machine. Each stored object is
verified by reading it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from pipelines import files
from pipelines.errors import MirrorError, SettingError

# Timeouts of one request (at most 5 MB), and of all its retries together.
REQUEST_SECONDS = 60
RETRY_SECONDS = 180
# The most names in one delete request: S3's limit.
DELETED_AT_ONCE = 1000

_REASONS = {"Unauthenticated": "it does not accept the credentials", "PermissionDenied": "it does not allow that"}


class TakenError(Exception):
    """The object exists already."""


class Bucket:
    """A folder of an object store; `url` is such as s3://bucket/prefix. Thread-safe.

    Credentials, region and endpoint come from the environment, as for the store's own tools (AWS_ACCESS_KEY_ID,
    AWS_ENDPOINT_URL and so on). Every method raises MirrorError.
    """

    def __init__(self, url: str, folder: str = "") -> None:
        """`folder` is a subfolder of the URL. Sends no request. Raises SettingError without the extra `mirror`."""
        self.url = f"{url.rstrip('/')}/{folder}".rstrip("/")
        self._obstore: Any = _obstore()
        with self._translated("be opened"):
            if self.url.startswith("file:"):
                root = files.folder(Path(unquote(urlsplit(self.url).path)))
                self._store = self._obstore.store.LocalStore(root, automatic_cleanup=True)
            else:
                client = {"timeout": f"{REQUEST_SECONDS}s", "connect_timeout": "10s", "allow_http": True}
                retry = {"max_retries": 10, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
                self._store = self._obstore.store.from_url(self.url, client_options=client, retry_config=retry)

    def put(self, name: str, content: Path | bytes, digest: str) -> None:
        """Store an object and read it back; raises MirrorError when its SHA-256 is not `digest`."""
        with self._translated("take an object"):
            self._obstore.put(self._store, name, content)
        if self.fetch(name) != digest:
            raise MirrorError(
                f"What was copied to {self.url} differs from what is read back from it. Nothing here is lost: run"
                " `rollbook mirror sync` again, and if this happens again, check that storage"
            )

    def create(self, name: str, content: bytes) -> None:
        """Create an object atomically, in one request. Raises TakenError when it exists already."""
        taken = False
        with self._translated("take an object"):
            try:
                self._obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except (self._obstore.exceptions.AlreadyExistsError, self._obstore.exceptions.PreconditionError):
                taken = True
        if taken and self.read(name) != content:  # if equal, it is ours: the response to an earlier try was lost
            raise TakenError

    def read(self, name: str) -> bytes:
        """An object's content. Raises FileNotFoundError, too."""
        with self._translated("be read"):
            return bytes(self._obstore.get(self._store, name).bytes())

    def fetch(self, name: str, to: IO[bytes] | None = None) -> str:
        """Read an object, into an open file if given; returns its SHA-256 in hex, empty if there is no such object."""
        digest = sha256()
        with self._translated("be read"), suppress(FileNotFoundError):
            for chunk in self._obstore.get(self._store, name):
                digest.update(chunk)
                if to is not None:
                    to.write(chunk)
            return digest.hexdigest()
        return ""

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """The size in bytes of every object below a folder, by name."""
        with self._translated("be listed"):
            listed: Iterator[list[dict[str, Any]]] = self._obstore.list(self._store, prefix=prefix or None)
            return {found["path"]: found["size"] for page in listed for found in page}

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. If one of them is missing, others may stay for the next time."""
        names = list(names)
        for start in range(0, len(names), DELETED_AT_ONCE):
            some = names[start : start + DELETED_AT_ONCE]
            with self._translated("delete objects"), suppress(FileNotFoundError):
                self._obstore.delete(self._store, some)

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Raise MirrorError without the store's own message, which contains addresses and key names."""
        try:
            yield
        except FileNotFoundError:
            raise
        except self._obstore.exceptions.BaseError as error:
            kind = type(error).__name__.removesuffix("Error")
            reason = _REASONS.get(kind, f"{kind}; no usable answer")
        except (OSError, ValueError, TypeError) as error:
            reason = type(error).__name__
        else:
            return
        raise MirrorError(
            f"The mirror at {self.url} could not {action} ({reason}). Nothing here is lost, and the next sync tries"
            " again: check that storage, its credentials and ROLLBOOK_LAKE"
        )


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise SettingError(
            'ROLLBOOK_LAKE needs the extra mirror, which is not installed: pip install "rollbook[mirror]"'
        ) from None
    return obstore
