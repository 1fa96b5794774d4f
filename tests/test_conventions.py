"""Each test module stands alone, and a test's name can be read at a glance."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from rollbook.settings import ROOT

TESTS = ROOT / "tests"
MOST_WORDS = 12


def faults(source: str) -> Iterator[str]:
    """What a test module does that it should not, in sentences."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            words = node.name.split("_")[1:]
            if len(words) > MOST_WORDS:
                yield f"{node.name} has {len(words)} words"
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        for name in names:
            if name.split(".")[-1].startswith(("test_", "conftest")):
                yield f"imports {name}: what tests share belongs in tests/support"


def test_names_are_short_and_no_test_module_imports_another() -> None:
    found = {str(path.relative_to(TESTS)): [*faults(path.read_text())] for path in TESTS.rglob("test_*.py")}
    assert {path: listed for path, listed in found.items() if listed} == {}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def test_a_b_c_d_e_f_g_h_i_j_k_l(): pass", None),
        ("def test_a_b_c_d_e_f_g_h_i_j_k_l_m(): pass", "test_a_b_c_d_e_f_g_h_i_j_k_l_m has 13 words"),
        ("from tests.night.test_hold import held", "imports tests.night.test_hold: "),
        ("from tests.night import test_hold", "imports test_hold: "),
        ("import tests.night.conftest", "imports tests.night.conftest: "),
        ("from tests.support.nights import House", None),
    ],
)
def test_a_fault_is_named(source: str, fault: str | None) -> None:
    found = [*faults(source)]
    assert [line.startswith(fault or "") for line in found] == ([True] if fault else [])
