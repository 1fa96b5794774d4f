"""A page of students asked of a client, and everything that could be told of an error."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from pipelines.source.client import Answer, Client
from pipelines.source.envelope import Page, page_of
from pipelines.tables import SETS

MakeClient = Callable[..., Client]
STUDENTS = page_of(SETS["students"])


def get_page(client: Client, page: int = 1, *, search: str = "") -> Answer[Page]:
    sought = {"search": search} if search else {}
    return client.get("students", {**sought, "page": page, "limit": 100}, read=STUDENTS)


def everything_about(error: BaseException) -> str:
    """Whatever of an error could reach a log: its text, its parts, its traceback, and all errors behind it."""
    seen, texts = set(), []
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        texts += [str(one), repr(one), repr(one.args), repr(vars(one))]
        texts += traceback.format_exception(one)
        queue += [one.__cause__, one.__context__]
    return "\n".join(texts)
