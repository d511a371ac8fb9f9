"""Avro in Confluent's wire format: schemas by their ids from a registry, records by fastavro."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

from headwater.errors import Retry, Stop

# A zero, and the schema's id in four bytes.
HEADER_BYTES = 5
_MISSING = 404
_REFUSED = (401, 403)


class Registry:
    """Schemas by id, each asked for once."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        # Not tried again in here: whoever asked does that.
        self._settings = {"max.retries": 0, "timeout": 10, **settings}
        self._url = settings["url"]
        self._schemas: dict[int, Any] = {}

    def schema(self, id: int) -> Any:
        """The Avro schema with this id, as plain data."""
        if id not in self._schemas:
            self._schemas[id] = self._ask(id)
        return self._schemas[id]

    def _ask(self, id: int) -> Any:
        from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

        where = f"the schema registry at {self._url}"
        try:
            with SchemaRegistryClient(self._settings) as client:
                found = client.get_schema(id)
        except SchemaRegistryError as error:
            if error.http_status_code == _MISSING:
                remedy = "Is it the one that the records were made with?"
                raise Stop(f"{where} does not know the schema {id}", remedy) from error
            if error.http_status_code in _REFUSED:
                raise Stop(f"{where} refuses us", "check schema.registry.* of the source", cause=str(error)) from error
            raise Retry(f"{where} fails", cause=str(error)) from error
        except Exception as error:
            # Its HTTP library's own errors: no connection, no answer.
            raise Retry(f"{where} cannot be reached", cause=str(error)) from error
        if found.schema_type != "AVRO" or found.references or found.schema_str is None:
            kind = "refers to others" if found.references else f"is {found.schema_type}"
            raise Stop(f"the schema {id} of {where} {kind}: only self-contained Avro is read")
        return json.loads(found.schema_str)

    def check(self) -> None:
        """Raise when it does not answer."""
        from confluent_kafka.schema_registry import SchemaRegistryClient

        try:
            with SchemaRegistryClient(self._settings) as client:
                client.get_subjects()
        except Exception as error:
            raise Retry(f"the schema registry at {self._url} cannot be reached", cause=str(error)) from error


def read_records(writer: Mapping[str, Any], records: Sequence[bytes]) -> Iterator[Any]:
    """Records without their headers, as Python's values. Raises ValueError for what does not fit the schema."""
    from fastavro import schemaless_reader

    schema = _parsed(json.dumps(writer))
    for record in records:
        try:
            yield schemaless_reader(BytesIO(record), schema, None)
        except (EOFError, IndexError, KeyError, UnicodeDecodeError, StopIteration) as error:
            raise ValueError(type(error).__name__) from error


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    from fastavro import parse_schema

    return parse_schema(json.loads(text))
