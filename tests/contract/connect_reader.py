"""The consumer's side of Kafka Connect in a JVM of its own: the converters and the transform that a sink connector
behind Debezium runs with, out of Debezium's own jars."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from headwater.testing.debezium import jars

JSON = "org.apache.kafka.connect.json.JsonConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
FLATTEN = "io.debezium.transforms.ExtractNewRecordState"


class ConnectReader:
    """Reads the keys and values of records with one converter."""

    def __init__(self, converter: str, settings: Mapping[str, str]) -> None:
        self._converter = converter
        self._settings = settings

    def __enter__(self) -> Self:
        [py4j] = Path(pyspark.__path__[0], "jars").glob("py4j-*.jar")
        port, token = launch_gateway(
            classpath=f"{jars()}/*",
            jarpath=str(py4j),
            javaopts=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
            die_on_exit=True,
            enable_auth=True,
        )
        self._java = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        self._read = {is_key: self._made(self._converter, self._settings, is_key) for is_key in (True, False)}
        self._plain = self._made(JSON, {"schemas.enable": "false"}, False)
        self._flatten = self._class(FLATTEN)()
        self._flatten.configure(self._map({"drop.tombstones": "false"}))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._java.shutdown()

    def read(self, topic: str, data: bytes, *, key: bool = False) -> tuple[str, Any]:
        """(name of the schema, value as plain JSON), the value checked against the schema that came with it."""
        read = self._read[key].toConnectData(topic, data)
        self._class("org.apache.kafka.connect.data.ConnectSchema").validateValue(read.schema(), read.value())
        return read.schema().name(), self._as_json(topic, read.schema(), read.value())

    def flattened(self, topic: str, key: bytes, value: bytes) -> Any:
        """The row that Debezium's own transform makes of an event."""
        parts = [self._read[is_key].toConnectData(topic, data) for is_key, data in ((True, key), (False, value))]
        values = [part for each in parts for part in (each.schema(), each.value())]
        record = self._class("org.apache.kafka.connect.sink.SinkRecord")(topic, 0, *values, 0)
        flat = self._flatten.apply(record)
        return self._as_json(topic, flat.valueSchema(), flat.value())

    def _as_json(self, topic: str, schema: Any, value: Any) -> Any:
        return json.loads(bytes(self._plain.fromConnectData(topic, schema, value)))

    def _made(self, name: str, settings: Mapping[str, str], is_key: bool) -> Any:
        made = self._class(name)()
        made.configure(self._map(settings), is_key)
        return made

    def _class(self, name: str) -> Any:
        found = self._java.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _map(self, settings: Mapping[str, str]) -> Any:
        made = self._java.jvm.java.util.HashMap()
        for name, value in settings.items():
            made.put(name, value)
        return made
