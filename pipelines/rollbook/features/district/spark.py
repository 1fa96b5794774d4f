"""Runs the work for many institutions on a Spark cluster, or on Sail, which is started here: one institution, one task.

Each task calls the function that a single machine calls, which uses DuckDB. No statement runs on Spark itself.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rollbook.errors import EngineError
from rollbook.features.district.settings import SAIL

# Every session warns of it, though pandas is not used here.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

log = logging.getLogger(__name__)

DEFAULT_PORT = 15002
ANSWERS_WITHIN = 10.0  # seconds


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
def sail() -> Iterator[SparkSession]:
    """A session on Sail, started in this process on a free port of this machine and stopped afterwards.

    Spark Connect has no password: every program on this machine can reach it meanwhile.
    """
    from pysail.spark import SparkConnectServer

    os.environ.setdefault("RUST_LOG", "error")  # it logs to the terminal
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    try:
        server.start(background=True)
        with remote(f"sc://127.0.0.1:{server.listening_address[1]}") as session:
            yield session
    finally:
        server.stop()


def run(engine: str, work: Callable[[str], str], texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Do `work` for each institution, as a task of its own; yields the name and the result of each.

    `engine` is `sail` or a Spark Connect address. The tasks need this package, and the warehouse under the same path.
    Raises EngineError.
    """
    with sail() if engine == SAIL else remote(engine) as session, _translate_errors(shown(engine)):
        rows = pa.table({"name": list(texts), "text": list(texts.values())})
        tasks = session.createDataFrame(rows).repartition(len(texts))
        for row in tasks.mapInArrow(partial(each, work), "name string, text string").collect():
            yield row["name"], row["text"]


def each(work: Callable[[str], str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do `work` for each row of a task: the columns are the name and the text."""
    for batch in batches:
        for name, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield pa.RecordBatch.from_pydict({"name": [name], "text": [work(text)]})


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
