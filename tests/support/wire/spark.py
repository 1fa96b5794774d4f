"""Real Spark on loopback: a cluster of two workers behind Spark Connect, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rollbook.settings import ROOT
from tests.support.processes.servers import free_port, until
from tests.support.wire import environments

PINS = Path(__file__).with_name("spark.txt")
PLACE = ROOT / ".venv-spark"
START_WITHIN = 180.0
MEMORY = 640  # MB, of the driver and of each worker


def needs_java() -> None:
    """Without Java a test fails in CI, and is skipped elsewhere."""
    if shutil.which("java") is None:
        message = "Spark needs Java: install the package openjdk-17-jre-headless, or run `make java` as root"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


def without_spark() -> dict[str, str]:
    """The environment, without what Spark's client leaves there: another Spark would take itself for a client, too."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}


@contextmanager
def spark_server(folder: Path) -> Iterator[str]:
    """Yield the address of a cluster; files and log are in `folder`."""
    needs_java()
    python = environments.interpreter(PINS, PLACE)
    home = next((python.parents[1] / "lib").glob("python*/site-packages/pyspark"))
    port = free_port()
    options = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": f"{MEMORY}m",
        "spark.local.dir": folder / "local",
        "spark.sql.codegen.wholeStage": "false",  # to compile each statement takes longer than to run it on few rows
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.ui.enabled": "false",
    }
    command = [
        str(home / "bin" / "spark-submit"),
        *("--master", f"local-cluster[2,1,{MEMORY}]", "--driver-memory", f"{MEMORY}m"),
        *(word for name, value in options.items() for word in ("--conf", f"{name}={value}")),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    environment = without_spark() | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,  # which has this package
    }
    log_file = folder / "spark.log"

    def is_up() -> bool:
        assert process.poll() is None, f"Spark ended: {log_file.read_text(errors='replace')[-2000:]}"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with log_file.open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            until(is_up, START_WITHIN, 0.5)
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
