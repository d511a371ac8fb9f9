"""A Kafka cluster as the source and the sink see it: librdkafka's settings, its clients, its errors in our words."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headwater.errors import HeadwaterError, Retry, Stop, Usage
from headwater.options import Secret

# Every key of a section that is librdkafka's own, or the registry client's.
SETTINGS = r"[a-z0-9_]+(\.[a-z0-9_]+)+|acks|debug|retries"
REGISTRY = "schema.registry."
_SECRET = re.compile(r"password|secret|token|credential|\bkey\.pem|jaas|user\.info|oauthbearer\.config")

# Long enough for a broker that is being restarted on a slow machine, short enough that somebody who waits for an
# error sees it.
TIMEOUT = 15.0
# Nobody answers at all: whoever asked tries again by and by.
NOBODY_SECONDS = 3.0

REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.ILLEGAL_SASL_STATE,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


def masked_settings(given: Mapping[str, Any]) -> dict[str, str | Secret]:
    """Settings as librdkafka spells them, those that are secret hidden."""
    return {name: _setting(name, value) for name, value in given.items()}


def _setting(name: str, value: Any) -> str | Secret:
    if isinstance(value, Secret) or _SECRET.search(name):
        return value if isinstance(value, Secret) else Secret(str(value))
    # YAML's true, as librdkafka spells it.
    return str(value).lower() if str(value) in ("True", "False") else str(value)


def clear_settings(masked: Mapping[str, str | Secret], *, registry: bool) -> dict[str, str]:
    """In the clear, for the one call that needs them: the registry client's, or librdkafka's."""
    clear = {name: value.reveal() if isinstance(value, Secret) else value for name, value in masked.items()}
    if registry:
        return {name.removeprefix(REGISTRY): text for name, text in clear.items() if name.startswith(REGISTRY)}
    return {name: text for name, text in clear.items() if not name.startswith(REGISTRY)}


class Cluster:
    """Settings of every client of one source or sink, what they complained about, and the cluster's topics."""

    def __init__(self, role: str, settings: Mapping[str, Any]) -> None:
        # `sink` or `source`, for people.
        self.role = role
        self.where = f"Kafka at {settings['bootstrap.servers']}"
        self._given = dict(settings)
        # librdkafka tells a wrong password in a callback, and the call that waits only that time is up.
        self._refused: KafkaError | None = None
        self._nobody = False
        self._admin: AdminClient | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """What a producer or consumer is made with."""
        # Nobody reads librdkafka's own lines on standard error; what matters comes back as an error.
        quiet = {"error_cb": self._complain, "log_level": self._given.get("log_level", "0")}
        return {**self._given, **quiet, **more}

    def _complain(self, error: KafkaError) -> None:
        if error.code() in REFUSED:
            self._refused = error
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._nobody = True

    @property
    def complaint(self) -> bool:
        """Whether a client was refused, or reaches nobody, since the topics were last asked for."""
        return self._refused is not None or self._nobody

    def made(self, kind: Any, **settings: Any) -> Any:
        """A producer, consumer or admin client; settings that librdkafka does not know are the user's mistake."""
        try:
            return kind(self.settings(**settings))
        except KafkaException as error:
            text = f"{self.role} kafka: librdkafka does not take these settings"
            raise Usage(text, cause=error.args[0].str()) from error

    def error(self, raised: KafkaException | KafkaError, doing: str) -> HeadwaterError:
        """What happened, as one of ours."""
        found: KafkaError = raised.args[0] if isinstance(raised, KafkaException) else raised
        code = found.code()
        refused, self._refused = self._refused, None
        if code in REFUSED or (refused is not None and code in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)):
            return Stop(
                f"{self.where} refuses us: {doing}",
                f"check security.protocol, sasl.* and ssl.* of the {self.role}, and the broker's ACLs",
                cause=(refused if code not in REFUSED and refused is not None else found).str(),
            )
        return Retry(f"{self.where}: {doing}", cause=f"{found.name()}: {found.str()}")

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = self.made(AdminClient)
        return self._admin

    def metadata(self) -> Any:
        """The cluster's id, brokers and topics, as confluent-kafka has them."""
        began, self._nobody = time.monotonic(), False
        while True:
            try:
                found = self.admin.list_topics(timeout=1.0)
                self._refused, self._nobody = None, False
                return found
            except KafkaException as error:
                # This calls `_complain`.
                self.admin.poll(0)
                waited = time.monotonic() - began
                if self._refused or waited > TIMEOUT or (self._nobody and waited > NOBODY_SECONDS):
                    raise self.error(error, "cannot list its topics") from error

    @cached_property
    def id(self) -> str:
        """What the cluster calls itself, whichever broker is asked."""
        return str(self.metadata().cluster_id)

    def topics(self) -> dict[str, int]:
        """Every topic of the cluster and how many partitions it has."""
        found = self.metadata().topics
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}
