"""A schema registry that speaks Confluent's API: schemas in, ids out, each asked for once."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors import Drift, Retry, Stop
from headwater.formats.avro_schema import avro_text
from headwater.formats.connect import Schema

# What the registry answers to a schema that readers of the last one could not read with.
_INCOMPATIBLE = 409


class SchemaRegistry:
    """Registers schemas before the first record that needs them. `settings` are confluent-kafka's own."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        # Not tried again in here: whoever asked does that.
        self._settings = {"max.retries": 0, "timeout": 10, **settings}
        self._url = settings["url"]
        self._ids: dict[tuple[str, Schema], int] = {}

    def id(self, subject: str, schema: Schema) -> int:
        """The id under which readers find this schema."""
        known = self._ids.get((subject, schema))
        if known is None:
            known = self._ids[subject, schema] = self._register(subject, avro_text(schema))
        return known

    def _register(self, subject: str, text: str) -> int:
        from confluent_kafka.schema_registry import Schema as Registered
        from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError

        try:
            # Asked once per schema: a connection that stays open would only grow old.
            with SchemaRegistryClient(self._settings) as client:
                return int(client.register_schema(subject, Registered(text, "AVRO")))
        except SchemaRegistryError as error:
            if error.http_status_code == _INCOMPATIBLE:
                raise Drift(
                    f"SCHEMA_DRIFT: the schema registry refuses the new schema of {subject}",
                    "undo the change of the table, or make it in a way that old readers survive (a default, nullable)",
                    f"or let it in: set the compatibility of the subject {subject} to NONE and start again",
                    cause=error.error_message,
                ) from error
            if error.http_status_code >= 500:
                raise Retry(f"the schema registry at {self._url} fails", cause=str(error)) from error
            raise Stop(f"the schema registry at {self._url} does not take {subject}", cause=str(error)) from error
        except Exception as error:
            # Its HTTP library's own errors: no connection, no answer.
            raise Retry(f"the schema registry at {self._url} cannot be reached", cause=str(error)) from error
