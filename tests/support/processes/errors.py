"""Everything of an error that could reach a log."""

from __future__ import annotations

import traceback


def everything_about(*errors: BaseException) -> str:
    """The text of errors, with parts, notes and tracebacks, and of all errors behind."""
    seen: set[int] = set()
    texts: list[str] = []
    queue: list[BaseException | None] = [*errors]
    while queue:
        error = queue.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            texts += [str(error), repr(error), repr(error.args), repr(vars(error)), *traceback.format_exception(error)]
            queue += [error.__cause__, error.__context__]
    return "\n".join(texts)
