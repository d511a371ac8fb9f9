"""A server that one test may crash and reconfigure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing import PostgresServer


@pytest.fixture
def tmp_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server
