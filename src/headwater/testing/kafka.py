"""A real Kafka broker for tests and benchmarks: one node (KRaft), plain or with TLS and SASL, jars fetched at first
use."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from headwater.errors import Retry
from headwater.testing.certificates import write_certificates
from headwater.testing.download import Artifact, fetch, java
from headwater.testing.java import JavaServer
from headwater.testing.process import free_port

KAFKA = Artifact("org.apache.kafka", "kafka_2.13", "4.3.1", size="44 MB", transitive=True)
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After kill -9 the broker is back in 6 s instead of 20.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # Topics are the sink's to create; a typo in a test should not make one.
    "auto.create.topics.enable": "false",
}


class KafkaServer(JavaServer):
    """One broker. `settings` go over SETTINGS; `users` (name → password) get a second listener, with SASL over TLS."""

    title = "Kafka broker"

    def __init__(self, settings: Mapping[str, str] | None = None, users: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.settings = {**SETTINGS, **(settings or {})}
        self._users = dict(users or {})
        self._controller = self._secure = 0

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers` of a client."""
        return f"127.0.0.1:{self.port}"

    def secured(self, user: str, password: str) -> dict[str, str]:
        """Settings of a client that has to log in."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self._secure}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def prepare(self) -> None:
        self._jars = fetch(KAFKA)

    def command(self) -> list[str]:
        properties = self.directory / "server.properties"
        if not self._controller:
            self._controller, self._secure = free_port(), free_port()
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not self.data.exists():
            self._format(self._jars, properties)
        program = [java(), "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [*program, "-cp", f"{self._jars}/*", "kafka.Kafka", str(properties)]

    def _properties(self) -> dict[str, str]:
        ports = {"CLIENT": self.port, "SECURE": self._secure, "CONTROLLER": self._controller}
        if not self._users:
            del ports["SECURE"]
        listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
        found = {
            **self.settings,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(text for name, text in listeners.items() if name != "CONTROLLER"),
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
        }
        if self._users:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            found["sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
            found["listener.name.secure.scram-sha-512.sasl.jaas.config"] = module
            found["listener.name.secure.ssl.keystore.type"] = "PEM"
            found["listener.name.secure.ssl.keystore.location"] = str(write_certificates(self.directory))
        return found

    def _format(self, jars: Path, properties: Path) -> None:
        # Not beginning with a hyphen: the tool would take it for an option.
        cluster = "H" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        command = [
            java(),
            "-cp",
            f"{jars}/*",
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(properties),
        ]
        for user, word in self._users.items():
            command += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={word}]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Retry("Kafka's storage could not be formatted", cause=(done.stdout + done.stderr).strip()[-2000:])

    def ready(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            return bool(
                AdminClient({"bootstrap.servers": self.bootstrap, "log_level": "0"}).list_topics(timeout=1).brokers
            )
        except KafkaException:
            return False
