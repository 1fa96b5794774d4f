"""A Singer tap, made with Meltano's SDK: its messages are read by target-duckdb, which keeps the newest row of each id."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from singer_sdk import Tap
from singer_sdk import typing as th
from singer_sdk.authenticators import APIKeyAuthenticator
from singer_sdk.pagination import BasePageNumberPaginator
from singer_sdk.streams import RESTStream


class Pages(BasePageNumberPaginator):
    """Pages up to the last."""

    def has_more(self, response: Any) -> bool:
        """Whether there is another page."""
        return bool(self.current_value < response.json()["pagination"]["total_pages"])


class Records(RESTStream):
    """The students, or the classes."""

    records_jsonpath = "$.data[*]"

    @property
    def url_base(self) -> str:
        """The service's address."""
        return f"{self.config['base_url']}/svcapi/v1"

    @property
    def authenticator(self) -> Any:
        """The key, in its header."""
        return APIKeyAuthenticator(key="X-API-Key", value=self.config["key"], location="header")

    def get_new_paginator(self) -> Pages:
        """Begin with the first page."""
        return Pages(1)

    def get_url_params(self, context: Any, next_page_token: Any) -> dict[str, Any]:
        """A page of a hundred records."""
        return {"page": next_page_token or 1, "limit": 100}


class Students(Records):
    """The students."""

    name, path = "students", "/students"
    primary_keys: ClassVar[list[str]] = ["id"]
    schema: ClassVar[Any] = th.PropertiesList(
        th.Property("id", th.IntegerType),
        *(th.Property(name, th.StringType) for name in ("name", "email", "reference_id", "registration_date")),
        *(th.Property(name, th.ObjectType(additional_properties=True)) for name in ("summary", "activity_tracking")),
        th.Property("classes", th.ArrayType(th.ObjectType(additional_properties=True))),
    ).to_dict()


class Classes(Records):
    """The classes."""

    name, path = "classes", "/classes"
    primary_keys: ClassVar[list[str]] = ["class_id"]
    schema: ClassVar[Any] = th.PropertiesList(
        th.Property("class_id", th.IntegerType),
        *(th.Property(name, th.StringType) for name in ("class_title", "class_code", "class_status", "class_room")),
        *(th.Property(name, th.ObjectType(additional_properties=True)) for name in ("summary", "assignment_activity")),
    ).to_dict()


class TapSchool(Tap):
    """Both sets."""

    name = "tap-school"
    config_jsonschema: ClassVar[Any] = th.PropertiesList(
        th.Property("base_url", th.StringType), th.Property("key", th.StringType)
    ).to_dict()

    def discover_streams(self) -> Iterable[Any]:
        """Both sets."""
        return [Students(self), Classes(self)]


if __name__ == "__main__":
    if len(sys.argv) > 4:  # the whole pipe
        base_url, key, folder, _ = sys.argv[1:]
        with tempfile.TemporaryDirectory() as configured:
            tap, target = Path(configured, "tap.json"), Path(configured, "target.json")
            tap.write_text(json.dumps({"base_url": base_url, "key": key}))
            target.write_text(
                json.dumps({"filepath": str(Path(folder, "school.duckdb")), "default_target_schema": "records"})
            )
            messages = subprocess.Popen([sys.executable, __file__, "--config", str(tap)], stdout=subprocess.PIPE)
            reader = [str(Path(sys.executable).with_name("target-duckdb")), "--config", str(target)]
            subprocess.run(reader, stdin=messages.stdout, stdout=subprocess.DEVNULL, check=True)
            sys.exit(messages.wait())
    TapSchool.cli()
