"""`make bench-district`: what a district's nights cost on one machine, with one host dead and one slow among the others."""

from __future__ import annotations

import argparse
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import district
from tests.bench.meter import machine, run
from tests.support.processes.commands import COMMAND, dagster_home, program
from tests.support.processes.servers import free_port


def registry(hosts: list[str], count: int) -> str:
    """Write institutions.toml: the schools are spread over the hosts; the first is on a dead one, the second on the slow."""
    *fast, slow = hosts
    urls = [fast[number % len(fast)] for number in range(count)]
    urls[:2] = [f"http://127.0.0.1:{free_port()}", slow]
    return "\n".join(
        f'[school-{number}]\nbase_url = "{url}"\napi_key = {{ env = "KEY_{number}" }}'
        for number, url in enumerate(urls, start=1)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="make bench-district")
    parser.add_argument("--institutions", type=int, default=200)
    parser.add_argument("--students", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="institutions at a time")
    chosen = parser.parse_args()
    count, out = chosen.institutions, Console(width=120)
    today = datetime.now(UTC).date()
    yesterday = today - timedelta(days=1)
    table = Table(title=f"{count} institutions of {chosen.students} students, {chosen.jobs} at a time")
    for heading in ("what", "seconds", "processor s", "of each", "peak MB", "exit"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    with (
        tempfile.TemporaryDirectory() as folder,
        program("-m", "tests.bench.district", count, chosen.students, yesterday) as service,
    ):
        hosts = service.read().split()
        institutions = Path(folder, "institutions.toml")
        institutions.write_text(registry(hosts, count))
        common = {
            "DAGSTER_HOME": str(dagster_home(Path(folder, "dagster_home"))),
            "ROLLBOOK_CACHE_MINUTES": "0",
            "ROLLBOOK_FIRST_DATE": str(yesterday),
            "ROLLBOOK_RETRY_SECONDS": "20",
        }
        keys = {f"KEY_{number}": district.key_of(number) for number in range(1, count + 1)}
        of_district = {"ROLLBOOK_WAREHOUSE": f"{folder}/many", "ROLLBOOK_INSTITUTIONS": str(institutions), **keys}
        of_one = {
            "ROLLBOOK_WAREHOUSE": f"{folder}/one",
            "ROLLBOOK_BASE_URL": hosts[0],
            "ROLLBOOK_API_KEY": district.key_of(1),
        }

        def add(what: str, institutions: int, env: dict[str, str], *arguments: str) -> None:
            output = run([*COMMAND, *arguments], {**common, **env})
            cells = (output.seconds, output.work, output.work / institutions, output.peak_mb)
            table.add_row(what, *(f"{cell:,.2f}" for cell in cells), str(output.exit_code))

        nightly = ("district", "sync", "--jobs", str(chosen.jobs), "--date")
        add("one school, rollbook sync", 1, of_one, "sync", "--date", str(yesterday))
        add("district sync, first night", count, of_district, *nightly, str(yesterday))
        service.ask(today)
        add("next night", count, of_district, *nightly, str(today))
        add("once more", count, of_district, *nightly, str(today))
        add("district status", count, of_district, "district", "status")
        add("district build", count, of_district, "district", "build")
    out.print(table)
    out.print(machine(), highlight=False)


if __name__ == "__main__":
    main()
