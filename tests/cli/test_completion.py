"""TAB completes commands and options, in a real bash and by what zsh is told; only the user's own files are written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.processes.commands import COMMAND
from tests.support.tiers import slow

# What a shell is asked when TAB is pressed: the words so far, and which of them is being typed.
PRESS_TAB = "COMP_WORDS=({words}); COMP_CWORD={place}; _rollbook_completion rollbook; echo ${{COMPREPLY[@]}}"


def shell(home: Path, *lines: str, program: str = "bash", **env: str) -> list[str]:
    """Run lines in a shell of somebody whose home is this folder, with `rollbook` on the PATH; returns what it printed."""
    own = {"HOME": str(home), "PATH": f"{Path(COMMAND[0]).parent}:{os.environ['PATH']}"} | env
    done = subprocess.run(
        [program, "-c", "\n".join(lines)],
        env=os.environ | own,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def written(home: Path) -> list[str]:
    return sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        slow("rollbook stat", ["status"]),
        slow("rollbook ba", ["backfill"]),
        ("rollbook export --f", ["--format"]),
        slow("rollbook docs --d", ["--dbt"]),
    ],
)
def test_bash_completes_a_word_by_the_script_that_is_shown_and_nothing_is_written(
    tmp_path: Path, typed: str, words: list[str]
) -> None:
    place = len(typed.split()) - 1
    assert shell(
        tmp_path, 'script="$(rollbook --show-completion)"', 'eval "$script"', PRESS_TAB.format(words=typed, place=place)
    ) == [" ".join(words)]
    assert written(tmp_path) == []


def test_once_installed_a_new_bash_completes_and_starts_without_running_rollbook(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("alias mine='echo mine'\n")
    told = shell(tmp_path, "rollbook --install-completion", "true")
    assert told == [
        f"bash completion installed in {tmp_path}/.bash_completions/rollbook.sh",
        "Completion will take effect once you restart the terminal",
    ]
    assert written(tmp_path) == [".bash_completions/rollbook.sh", ".bashrc"]
    assert (tmp_path / ".bashrc").read_text().startswith("alias mine='echo mine'\n")
    # A `rollbook` that would say so if the start of a shell ran it.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rollbook").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "bin" / "rollbook").chmod(0o755)
    begun = [f'PATH="{tmp_path}/bin:$PATH"', "source .bashrc", "complete -p rollbook"]
    assert shell(tmp_path, *begun) == ["complete -o default -F _rollbook_completion rollbook"]
    assert shell(tmp_path, "source .bashrc", PRESS_TAB.format(words="rollbook disc", place=1)) == ["discard"]


def test_zsh_is_told_the_commands_with_what_each_does(tmp_path: Path) -> None:
    """The script that zsh gets asks this; the answer can be seen without zsh, too."""
    zsh = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # so that a shell can be named
    script = shell(tmp_path, "rollbook --show-completion zsh", **zsh)
    assert script[0] == "#compdef rollbook"
    assert script[-1] == "compdef _rollbook_completion rollbook"
    asked = shell(tmp_path, "rollbook", _ROLLBOOK_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="rollbook sta")
    assert asked == ["""_arguments '*: :(("status":"Show at a glance how the warehouse is doing."))'"""]
    assert written(tmp_path) == []
