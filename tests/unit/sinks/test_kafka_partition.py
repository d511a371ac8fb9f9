"""Keys go to the partitions that Kafka's own clients would choose."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.formats.text import bytes_of
from headwater.sinks.kafka.kernels import key_partitions
from headwater.sinks.kafka.plain import key_partition


def by_kernel(keys: list[bytes], count: int) -> list[int]:
    out = np.empty(len(keys), dtype=np.int32)
    data, offsets = bytes_of(pa.array(keys, pa.binary()))
    key_partitions(data, offsets, count, out)
    return out.tolist()


@pytest.mark.parametrize(
    ("key", "murmur2"),
    # From Kafka's own UtilsTest.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_known_hashes(key: bytes, murmur2: int) -> None:
    count = 1_000_003
    expected = (murmur2 & 0x7FFFFFFF) % count

    assert key_partition(key, count) == expected
    assert by_kernel([key], count) == [expected]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 1000))
def test_the_kernel_is_its_twin(keys: list[bytes], count: int) -> None:
    assert by_kernel(keys, count) == [key_partition(key, count) for key in keys]
