"""An engine that speaks Spark Connect: a Spark cluster, or Sail, which is started here.

Spark's temporary views have no schema, and other views would stay in the cluster's catalog, where two builds collide.
So `history.students` is called `history_students` there. Text is STRING, and a TIMESTAMP without a zone TIMESTAMP_NTZ.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rollbook.errors import EngineError
from rollbook.tables import Column
from rollbook.util import machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Every session warns of it, though pandas is not used here.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

log = logging.getLogger(__name__)

DEFAULT_PORT = 15002
ANSWERS_WITHIN = 10.0  # seconds

_RELATION = re.compile(r"\b(main|history|ops|spans|lake|given)\.(\w+)")
_TYPES = {"VARCHAR": "STRING", "JSON": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ"}
_TYPE = re.compile(r"\bAS (VARCHAR|JSON|TIMESTAMP)\)")


@contextmanager
def remote(address: str) -> Iterator[SparkSession]:
    """A new session at an address. Raises EngineError if nothing answers."""
    place = urlsplit(address)
    try:  # the client itself would retry for minutes
        socket.create_connection((place.hostname or "", place.port or DEFAULT_PORT), ANSWERS_WITHIN).close()
    except OSError as error:
        raise EngineError(
            f"The engine {shown(address)} does not answer: check its name, and that it runs there"
        ) from error
    with _translate_errors(shown(address)):
        _load()
        session = SparkSession.builder.remote(address).create()
        session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def sail(scratch: Path) -> Iterator[SparkSession]:
    """A session on Sail, started in this process on a free port of this machine and stopped afterwards.

    Spark Connect has no password: every program on this machine can reach it meanwhile.
    """
    from pysail.spark import SparkConnectServer

    # It sorts within a quarter of the memory, as DuckDB does, and spills to `scratch`: pupils' records must not go to
    # the machine's folder for temporary files. It reads these from the environment; those already set take precedence.
    settings = {
        "RUST_LOG": "error",  # it logs to the terminal
        "SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair",
        "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(machine.memory() // 4),
        "SAIL_OPTIMIZER__PREFER_HASH_JOIN": "false",  # a hash join must fit into memory
        "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": json.dumps([str(scratch)]),
        "SAIL_RUNTIME__TEMPORARY_FILES__MAX_SIZE": str(machine.free(scratch)),
    }
    ours = settings.keys() - os.environ.keys()
    os.environ.update({name: settings[name] for name in ours})
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    try:
        server.start(background=True)
        with remote(f"sc://127.0.0.1:{server.listening_address[1]}") as session:
            yield session
    finally:
        server.stop()
        for name in ours:
            del os.environ[name]


class Spark:
    """A Spark session as an `Engine`; `name` is its address, or `sail`."""

    def __init__(self, name: str, session: SparkSession) -> None:
        self.name = shown(name)
        self._session = session

    def read(self, name: str, folder: Path, columns: Sequence[Column], folders: Sequence[Column] = ()) -> None:
        """Define a view over the Parquet files of a folder."""
        wanted = [(c.name, _TYPES.get(c.type, c.type)) for c in (*columns, *folders)]
        with _translate_errors(self.name):
            if any(folder.glob("/".join((*("*" * len(folders)), "*.parquet")))):
                # With a schema, a folder `institution=007` is not read as the number 7.
                schema = ", ".join(f"{column} {kind}" for column, kind in wanted)
                rows = self._session.read.schema(schema).parquet(str(folder))
            else:
                nulls = ", ".join(f"CAST(NULL AS {kind}) AS {column}" for column, kind in wanted)
                rows = self._session.sql(f"SELECT {nulls} WHERE FALSE")
            rows.createOrReplaceTempView(_called(name))

    def define(self, name: str, query: str) -> None:
        """Define a view."""
        with _translate_errors(self.name):
            self._rows(query).createOrReplaceTempView(_called(name))

    def write(self, query: str, folder: Path, folders: Sequence[str] = ()) -> None:
        """Write the rows of a query into a folder."""
        with _translate_errors(self.name):
            self._rows(query).write.partitionBy(*folders).parquet(str(folder), compression="zstd")

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with _translate_errors(self.name):
            return [tuple(row) for row in self._rows(query).collect()]

    def hashed(self, columns: Sequence[str]) -> str:
        """Spark's hash skips NULLs, so `IS NULL` is hashed as well."""
        return f"xxhash64({', '.join(f'{column} IS NULL, {column}' for column in columns)})"

    def _rows(self, query: str) -> DataFrame:
        typed = _TYPE.sub(lambda found: f"AS {_TYPES[found[1]]})", query)
        return self._session.sql(_RELATION.sub(lambda found: _called(found[0]), typed))


def _load() -> None:
    """Import the client. In a process without a main file (a worker, `python -c`) it believes that it is being tested,
    and ends the process.
    """
    main = sys.modules["__main__"]
    nameless = main.__spec__ is None and not hasattr(main, "__file__")
    if nameless:
        main.__file__ = __file__
    try:
        import pyspark.sql.connect  # noqa: F401 - the point
    finally:
        if nameless:
            del main.__file__


def shown(address: str) -> str:
    """An address without its parameters, which may hold a token."""
    return address.partition("/;")[0]


def _called(name: str) -> str:
    return name.replace(".", "_")


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Turn Spark's errors into EngineError: their own messages may quote a value, and run over pages."""
    try:
        yield
    except PySparkException as error:
        log.debug("%s", error)
        kind = error.getCondition() or type(error).__name__
        raise EngineError(
            f"The engine {name} failed ({kind}). Readers keep the last file. Check that it runs and reaches the same"
            " files; its own log has the details"
        ) from error
