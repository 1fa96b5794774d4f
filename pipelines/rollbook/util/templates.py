"""Jinja's compiled templates, kept as Python keeps its compiled modules."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.resources import files

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket


class Compiled(FileSystemBytecodeCache):
    """The compiled templates of a package, in its `__pycache__`: they are code, so they are where other code is.

    Without it each process compiles again what it renders, in a third of a second. A template that has changed is
    compiled again; so must all be when the environment's options change: give PATTERN another number then.
    """

    PATTERN = "jinja-2-%s.cache"

    def __init__(self, package: str) -> None:
        super().__init__(str(files(package).joinpath("__pycache__")), self.PATTERN)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, unless Python may not keep modules there either."""
        if not sys.dont_write_bytecode and os.access(self.directory, os.W_OK):
            with suppress(OSError):
                super().dump_bytecode(bucket)
