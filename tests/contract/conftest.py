"""Servers that sinks are tested against; one of each for the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing import PostgresServer
from headwater.testing.kafka import KafkaServer
from headwater.testing.registry import RegistryServer


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A broker; tests keep to topics of their own."""
    with KafkaServer(users={"shop": "the-password"}) as server:
        yield server


@pytest.fixture(scope="session")
def registry() -> Iterator[RegistryServer]:
    """A schema registry whose compatibility is BACKWARD."""
    with RegistryServer() as server:
        yield server


@pytest.fixture
def postgres_and_kafka(postgres: PostgresServer, kafka: KafkaServer) -> tuple[PostgresServer, KafkaServer]:
    """A database, and a broker for its events."""
    return postgres, kafka
