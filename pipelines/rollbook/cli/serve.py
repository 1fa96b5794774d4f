"""The commands that run until somebody stops them, `serve` and `explore`, and the made-up schools of `demo` and
`sandbox`.

`serve` runs Dagster's webserver behind the guard, Dagster's daemon, and the server of the code. `serve` starts them
instead of `dagster dev`, which ignores a service manager's stop signals when running in the background, and leaves
orphans when killed.

Like a real sync, a demo uses HTTP (to a sandbox on loopback); the last of its nights is a run of Dagster's. Its
warehouse and Dagster home are in `demo/` below the institution's warehouse, which is not touched; the institution's
`.env` is not read.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from filelock import Timeout
from rich.markup import escape

from rollbook import settings
from rollbook.errors import ArgumentError, BusyError, HeldError, RollbookError
from rollbook.opening import open_rollbook
from rollbook.settings import API_KEY, DEMO, IN_ROOT, PREFIX, ROOT, SERVED_BY, is_read_here
from rollbook.store.database import machine_errors
from rollbook.store.statements import statements
from rollbook.terminal import (
    Demo,
    Panel,
    app,
    choose_warehouse,
    err,
    made_home,
    made_up,
    out,
    parse_day,
    safe,
    table,
    without_secrets,
)
from rollbook.terminal.serving import (
    EXPLORE,
    UI,
    Browser,
    dagster_home,
    first_address,
    listening,
    show,
    stopping_on_signals,
)
from rollbook.util import address, files, machine
from rollbook.util.text import count_of, listed

if TYPE_CHECKING:
    from rollbook.opened import Rollbook

STOP_WITHIN = 20.0  # seconds
MAX_SOCKET = 100  # bytes of a socket's path

# Linux's prctl, which Python does not offer. On other systems `serve` may leave orphans.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


@app.command(rich_help_panel=Panel.SYNC)
def serve(
    host: Annotated[
        str,
        typer.Option(
            help="The address that the UI listens on. It is not encrypted: keep it on loopback. ROLLBOOK_UI_HOSTS adds"
            " host names by which browsers reach it, such as a proxy's."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The UI's port.")] = 3000,
    demo: Annotated[bool, typer.Option("--demo", help="Serve the demo's warehouse, and its made-up school.")] = False,
) -> None:
    """Run the UI and the daemon that starts the nightly sync, until Ctrl-C or SIGTERM.

    The UI requires a token: `rollbook open` opens it in the browser, and prints its address.
    """
    secrets = without_secrets()
    with ExitStack() as stack:
        if demo:
            from rollbook.sandbox import Sandbox

            prepare(stack.enter_context(Sandbox(api_key=KEY)).url)
            secrets = {API_KEY: os.environ.pop(API_KEY)}
        stack.enter_context(_only_server(f"http://{host}:{port}"))
        stack.enter_context(stopping_on_signals())
        stack.enter_context(_in_files(secrets))
        names, runs = _what_is_served()
        for each in address.listened(host):
            listening(each, port, "serve").close()
        stack.enter_context(_ending_orphans())
        _create_dagster_tables()
        workspace = made_home() / "served.yaml"
        children = {"code server": stack.enter_context(_code_server(workspace))}
        web = [sys.executable, "-m", "rollbook.defs.ui_server", host, str(port), str(workspace), *names]
        # Below ERROR, the daemon tells twice a minute that nothing has happened; what did happen, the runs say.
        dagster_daemon = str(Path(sys.executable).with_name("dagster-daemon"))
        daemon = [dagster_daemon, "run", "--log-level", "error", "-w", str(workspace)]
        for name, command in (("UI", web), ("daemon", daemon)):
            children[name] = stack.enter_context(child_process(command))
        kept = address.Kept(made_home(), UI, port)
        while not kept.is_served() and all(child.poll() is None for child in children.values()):
            time.sleep(0.2)
        # Others may read a log: the token is shown on a terminal alone.
        is_seen = out.is_terminal and kept.is_served()
        where = f"at {first_address(kept)}" if is_seen else f"on port {port} (`rollbook open` opens it)"
        out.print(f"The UI is ready {safe(where)}; {runs}.")
        _wait(children)


@contextmanager
def _only_server(url: str) -> Iterator[None]:
    """Keep a second `serve` off this Dagster home: two daemons would both start each night. Raises BusyError."""
    home = made_home()
    path = home / "serve.lock"
    with machine_errors(home):
        try:
            lock = files.Lock(path, timeout=0).acquire()
        except Timeout:
            raise BusyError(
                f"`rollbook serve` already runs with the Dagster home {home} ({files.holder(path)}): two of them would"
                " start every night twice. Stop that one first, or set DAGSTER_HOME to another folder"
            ) from None
    with lock:
        now = datetime.now(UTC)
        who = f"process {os.getpid()} of {machine.account()} on {socket.gethostname()}"
        files.note_holder(path, f"{who} since {now:%Y-%m-%d %H:%M} UTC, {url}")
        yield


@contextmanager
def _in_files(secrets: Mapping[str, str]) -> Iterator[None]:
    """Put secrets into files that `<NAME>_FILE` names, in a private folder; the children start there.

    A launch can read every variable of Dagster's processes, and Dagster reads `.env` where it starts: in this folder
    is none. It is removed at the end, or else by the next start.
    """
    home, unread = made_home(), [name for name in secrets if not is_read_here(name)]
    if unread:
        err.print(
            f"[yellow]Note:[/] Dagster is started without {safe(listed(unread))}: a launch could read each variable"
        )
    with ExitStack() as stack:
        with machine_errors(home):
            files.sweep_aside(home)
            folder = stack.enter_context(files.aside(home))
            for name, secret in secrets.items():
                if name not in unread:
                    files.write(folder / name, secret.encode("utf-8", "surrogateescape"))
                    os.environ[f"{name}_FILE"] = str(folder / name)
        os.environ[IN_ROOT] = str(ROOT)
        stack.enter_context(chdir(folder))
        yield


def _what_is_served() -> tuple[list[str], str]:
    """The host names that the UI answers to, and a clause that says when the syncs run. Raises SettingError."""
    from rollbook.assembly import assemble, lines
    from rollbook.health.finding import Level

    registry = settings.registry()
    if registry is None:
        single = settings.load()
        with suppress(Exception):  # these are only warnings, and the nights must begin
            for line in () if os.environ.get(DEMO) else lines(assemble(single)):
                if line.level is not Level.OK:
                    err.print(f"[yellow]Warning:[/] {line.what}: {safe(line.says)}")
        return single.ui_names, f"the nightly sync runs at {single.cron} ({single.timezone})"
    sources = settings.sources(registry)
    if wrong := [name for name in registry.institutions if name not in sources]:
        err.print(
            f"[yellow]Warning:[/] wrong settings, so not synced: {', '.join(wrong)}; see `rollbook district check`"
        )
    times = {(source.cron, source.timezone) for source in sources.values()}
    return settings.ui_names(), f"nightly syncs run at {count_of(len(times), 'different time')}"


def _create_dagster_tables() -> None:
    """Create Dagster's tables before two processes need them; in a child, since this process needs no Dagster."""
    with child_process([sys.executable, "-c", "import dagster\nwith dagster.DagsterInstance.get(): pass"]) as child:
        if child.wait():
            raise RollbookError(
                "Dagster's records do not open; its last lines are above. `rollbook doctor` may say more: fix what it"
                " names, then start `rollbook serve` again"
            )


@contextmanager
def _code_server(workspace: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the code, and write into the file `workspace` where.

    The UI and the daemon ask one server, so that both have the same days when the server loads the code again. It
    listens on a socket that only this account can open: next to the file or, where that path is too long for a socket,
    in a private folder of its own.
    """
    with ExitStack() as stack:
        socket_file = workspace.with_name("code.sock")
        if len(os.fsencode(socket_file)) > MAX_SOCKET:
            socket_file = Path(stack.enter_context(TemporaryDirectory(prefix="rollbook-")), socket_file.name)
        socket_file.unlink(missing_ok=True)
        server = {"socket": str(socket_file), "location_name": "rollbook"}
        files.write(workspace, json.dumps({"load_from": [{"grpc_server": server}]}).encode())
        of_code = ("-m", "rollbook.definitions", "-a", "defs", "--location-name", "rollbook", "--log-level", "warning")
        command = [sys.executable, "-m", "dagster", "code-server", "start", "-s", str(socket_file), *of_code]
        child = stack.enter_context(child_process(command))
        while child.poll() is None and not socket_file.exists():
            time.sleep(0.1)
        yield child


@contextmanager
def child_process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child in its own process group, so that Ctrl-C reaches the child once, through this process."""
    child = subprocess.Popen(  # noqa: S603 - our own commands
        command,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@contextmanager
def _ending_orphans() -> Iterator[None]:
    """At the end, kill what is left of the processes that the children started: a run, its workers, its logs.

    Until then, this process inherits those whose parent has ended. The next sync recovers an interrupted one.
    """
    if _LIBC is not None:
        _LIBC.prctl(_SET_CHILD_SUBREAPER, 1)
    os.environ[SERVED_BY] = str(os.getpid())
    try:
        yield
    finally:
        until = time.monotonic() + STOP_WITHIN
        while (left := machine.descendants(os.getpid())) and time.monotonic() < until:
            for number in left:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.05)


def _bury_orphans(children: Iterable[int]) -> None:
    """Take the exit codes of inherited processes that have ended; those of the own children are their `Popen`'s."""
    if _LIBC is None:
        return
    with suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in children:
            os.waitpid(ended.si_pid, 0)


def _end_with_parent() -> None:
    """In the child: stop when the parent is killed, instead of keeping the port and running nights unsupervised."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _wait(children: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Wait until a child ends. If a child ends by itself, stop all: a service manager then restarts all."""
    try:
        while True:
            for name, child in children.items():
                if child.poll() is not None:
                    raise RollbookError(
                        f"The {name} ended by itself ({child.returncode}); its last lines are above. Start `rollbook"
                        " serve` again: runs and ticks go on where they stopped"
                    )
            _bury_orphans([child.pid for child in children.values()])
            time.sleep(0.5)
    finally:
        for child in children.values():  # all at once: each takes seconds to stop
            child.terminate()


class WebApp(StrEnum):
    """The web apps that `rollbook open` opens."""

    UI = UI
    EXPLORE = EXPLORE


@app.command("open", rich_help_panel=Panel.ASK)
def open_page(
    what: Annotated[WebApp, typer.Argument(help="The UI of `rollbook serve`, or explore.")] = WebApp.UI,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Its port, if it runs on several of them.")] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Change its host name and token first: the old ones let nobody in any more.")
    ] = False,
    demo: Demo = False,
    browser: Browser = True,
) -> None:
    """Open the page of a running `rollbook serve` or `rollbook explore`, and print its address, with the token."""
    if demo:
        choose_warehouse()
    home, command = dagster_home(), "serve" if what is WebApp.UI else "explore"
    with machine_errors(home):
        there = address.known(home, what, port)
        for kept in there if new else ():
            with suppress(address.UnreadableError):
                kept.read()
            kept.renew(kept.address.host if kept.address else "")
        served = [kept for kept in there if kept.is_served()]
        if new and not served:
            out.print(f"The next `rollbook {command}` has another address.")
            return
        if not served:
            on = f" on port {port}" if port else ""
            raise RollbookError(
                f"`rollbook {command}` does not run{on} with the Dagster home {home}: start it, or set DAGSTER_HOME as"
                " it is set there"
            )
        if len(served) > 1:
            ports = " and ".join(str(kept.port) for kept in served)
            raise ArgumentError(f"`rollbook {command}` runs on the ports {ports}: choose one with --port")
        out.print(f"Open {safe(first_address(served[0]))} in a browser on this machine.")
        if browser:
            show(served[0])


sql = statements("rollbook.cli")

KEY = "sandbox-key"

# SQL files whose first line is the question.
QUESTIONS = ("nights", "changed", "to_watch", "best", "before")


@app.command(rich_help_panel=Panel.TRY)
def demo(
    students: Annotated[int, typer.Option(min=50, help="How many students a made-up school has.")] = 500,
    days: Annotated[int, typer.Option(min=2, help="How many days to sync, up to today.")] = 14,
) -> None:
    """Sync two weeks of a made-up school, day by day, and show the result."""
    from rich.syntax import Syntax

    from rollbook.reading.query import run_query
    from rollbook.sandbox import Sandbox
    from rollbook.sandbox.institution import terms as terms_between
    from rollbook.views import editable

    with Sandbox(students, api_key=KEY) as sandbox:
        prepare(sandbox.url)
        rollbook = open_rollbook()
        if rollbook.bound_to() is not None:  # an earlier demo
            with rollbook.writer().writing():
                rollbook.place.clear()
        last = rollbook.today()
        played = [last - timedelta(days=n) for n in reversed(range(days))]
        os.environ[f"{PREFIX}FIRST_DATE"] = str(played[0])
        rollbook = open_rollbook()
        year = timedelta(days=365)
        terms = [editable.Term(*term) for term in terms_between(last - year, last + year)]
        editable.ensure(rollbook.warehouse.root, terms=terms)
        out.print(f"A made-up school of {students} students, on {sandbox.url}; {days} nights, the last in Dagster.")
        for day in played:
            sandbox.day = day
            play_day(rollbook, day, in_dagster=day == last)
    published = rollbook.warehouse.published_file
    for question, _, query in (sql(name).strip().partition("\n") for name in QUESTIONS):
        out.print(f"\n[bold]{question.removeprefix('-- ')}[/]")
        out.print(Syntax(query, "sql", background_color="default", word_wrap=True))
        answer = run_query(published, query)
        out.print(table("", answer.columns, answer.rows))
    shown = published.relative_to(ROOT) if published.is_relative_to(ROOT) else published
    out.print(f"\n[bold]The file[/]  {safe(str(shown))}: open it with anything that speaks DuckDB.")
    command = command_name()
    out.print(f"[bold]The page[/]  {safe(str(shown.with_name('report.html')))}: open it in a browser.")
    out.print(f"[bold]The UI[/]    {command} serve --demo, then {command} open --demo: the graph, the runs.")
    out.print(f"[bold]Explore[/]   {command} explore --demo: the school, its classes, its students.")
    out.print(f"[bold]For real[/]  {command} init, then {command} sync")


def command_name() -> str:
    """The command as a shell finds it: `make demo` leaves it in .venv/bin, which is often not on the path."""
    return "rollbook" if shutil.which("rollbook") else safe(sys.argv[0])


def play_day(rollbook: Rollbook, day: date, *, in_dagster: bool = False) -> None:
    """Sync a day of the demo. Held nights, as in the summer's great changes, are approved, as a person would."""
    from rollbook.night import approvals, sync

    if in_dagster:
        job = ("-m", "rollbook.definitions", "--select", "*", "--partition", str(day))
        command = [sys.executable, "-m", "dagster", "asset", "materialize", *job]
        env = settings.public_environment() | {API_KEY: KEY}
        subprocess.run(command, cwd=os.environ["DAGSTER_HOME"], env=env, capture_output=True, check=False)  # noqa: S603 - our own
    else:
        with suppress(HeldError):
            sync(rollbook.writer(), day)
    if (held := rollbook.landings.held(day)) is not None:
        approvals.approve(rollbook.writer(), [held.hold_digest], reason="the summer of a made-up school")
        err.print(f"Held: {escape(held.reason)}. Approved.")
    if not rollbook.landings.counted(day):
        raise RollbookError(f"Dagster could not sync {day}: `{command_name()} serve --demo` shows the run's log")
    err.print(f"synced {day}")


def prepare(base_url: str) -> None:
    """Point this process's settings at the sandbox and at the demo's warehouse."""
    choose_warehouse()
    os.environ |= {
        f"{PREFIX}BASE_URL": base_url,
        API_KEY: KEY,
    }


@app.command(rich_help_panel=Panel.TRY)
def sandbox(
    students: Annotated[int, typer.Option(min=1, help="How many students the made-up institution has.")] = 500,
    day: Annotated[
        date | None,
        typer.Option(parser=parse_day, metavar="DAY", help="The day it serves; by default always today."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on loopback; 0 takes a free one.")] = 8765,
    seed: Annotated[int, typer.Option(help="Another seed makes another institution.")] = 1,
    key: Annotated[str, typer.Option(help="The API key it accepts.")] = KEY,
    odd: Annotated[
        bool, typer.Option("--odd", help="Answer like many real services: as PHP writes, and as proxies fail.")
    ] = False,
) -> None:
    """Serve a made-up institution that follows the records service's contract, on loopback, until Ctrl-C."""
    from rollbook.sandbox import serve as serve_sandbox

    def ready(base_url: str) -> None:
        out.print(f"Serving {count_of(students, 'student')} at {base_url}. In another terminal:\n")
        variables = {f"{PREFIX}BASE_URL": base_url, f"{PREFIX}API_KEY": key, **made_up(f"sandbox-{seed}")}
        if day:
            variables[f"{PREFIX}FIRST_DATE"] = str(day)
        given = "".join(f" {name}={quote(value)}" for name, value in variables.items())
        out.print(f"  export{safe(given)}\n  {command_name()} sync{f' --date {day}' if day else ''}\n")

    serve_sandbox(students, day, port, seed, key, odd=odd, on_ready=ready)
