"""The inside of a Debezium process: a JVM in this interpreter, the engine, and a consumer of its batches.

Started by `debezium.py` and by nobody else: one JSON line on standard input says what to run, one JSON line
per delivered batch goes to standard output, and the end of standard input closes the engine.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

_LOG4J = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.append = false
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %-5p %c{{1}} %m%n%ex{{12}}
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.debezium.name = io.debezium
logger.debezium.level = info
"""


def main() -> None:
    """Run one engine until standard input ends or the engine stops by itself."""
    order = json.loads(sys.stdin.readline())
    # The JVM and its libraries may print; only progress lines may reach the parent's pipe.
    progress = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jpype: Any = importlib.import_module("jpype")
    start_jvm(jpype, order)
    events = open(order["events"], "w", encoding="utf-8") if order["events"] else None  # noqa: SIM115
    consumer = recording_consumer(jpype, progress, events) if events else counting_consumer(jpype, progress)
    engine = build_engine(jpype, order["properties"], consumer)
    running = threading.Thread(target=engine.run, name="engine", daemon=True)
    running.start()
    threading.Thread(target=close_at_end_of_input, args=(engine,), name="closer", daemon=True).start()
    running.join()
    if events:
        events.close()
    progress.close()
    # Connectors leave threads behind; nothing of them is needed any more.
    os._exit(0)


def start_jvm(jpype: Any, order: Mapping[str, Any]) -> None:
    """The JVM with Debezium's jars, logging to the file the parent keeps."""
    config = Path(order["log"]).with_name("log4j2.properties")
    config.write_text(_LOG4J.format(log=order["log"]))
    jpype.startJVM(
        f"-Xmx{order['heap']}",
        f"-Dlog4j2.configurationFile={config}",
        # Values of dates in a snapshot go through the JVM's zone; UTC is what servers run in.
        "-Duser.timezone=UTC",
        classpath=order["classpath"],
        convertStrings=False,
    )


def build_engine(jpype: Any, properties: Mapping[str, str], consumer: Any) -> Any:
    """Debezium's default engine (asynchronous, ordered), with key, value and headers as JSON text."""
    java_properties = jpype.JClass("java.util.Properties")()
    for name, value in properties.items():
        java_properties.setProperty(name, value)
    json_format = jpype.JClass("io.debezium.engine.format.Json")
    engine = jpype.JClass("io.debezium.engine.DebeziumEngine")
    completion = jpype.JProxy("io.debezium.engine.DebeziumEngine$CompletionCallback", {"handle": report_completion})
    return (
        engine.create(json_format, json_format, json_format)
        .using(java_properties)
        .using(completion)
        .notifying(consumer)
        .build()
    )


def report_completion(success: bool, message: Any, error: Any) -> None:
    """Debezium logs why it ended; an error that came before its logging goes to the process log."""
    if not success:
        sys.stderr.write(f"ERROR the engine ended: {message} {error}\n")
        sys.stderr.flush()


def counting_consumer(jpype: Any, progress: IO[str]) -> Any:
    """Asks each batch for its size and nothing else, and acknowledges it by its last record."""
    total = 0

    def handle_batch(records: Any, committer: Any) -> None:
        nonlocal total
        total += records.size()
        committer.markProcessed(records.get(records.size() - 1))
        committer.markBatchFinished()
        tell(progress, total)

    return consumer_of(jpype, handle_batch)


def recording_consumer(jpype: Any, progress: IO[str], events: IO[str]) -> Any:
    """Writes every record as one JSON line, texts untouched."""
    total = 0

    def handle_batch(records: Any, committer: Any) -> None:
        nonlocal total
        for record in records:
            events.write(json.dumps(describe(record), ensure_ascii=False) + "\n")
            committer.markProcessed(record)
        events.flush()
        committer.markBatchFinished()
        total += records.size()
        tell(progress, total)

    return consumer_of(jpype, handle_batch)


def consumer_of(jpype: Any, handle_batch: Any) -> Any:
    """A Java ChangeConsumer made of one Python function."""
    return jpype.JProxy(
        "io.debezium.engine.DebeziumEngine$ChangeConsumer",
        {"handleBatch": handle_batch, "supportsTombstoneEvents": lambda: True},
    )


def describe(record: Any) -> dict[str, Any]:
    """A ChangeEvent as plain data."""
    return {
        "topic": text(record.destination()),
        "key": text(record.key()),
        "value": text(record.value()),
        "headers": [[text(header.getKey()), text(header.getValue())] for header in record.headers()],
    }


def text(value: Any) -> str | None:
    """A Java string as ours; null stays None."""
    return None if value is None else str(value)


def tell(progress: IO[str], total: int) -> None:
    """One progress line for the parent."""
    progress.write(json.dumps({"events": total, "at": time.monotonic()}) + "\n")
    progress.flush()


def close_at_end_of_input(engine: Any) -> None:
    """The parent closed the pipe, or died: let go of the slot and end."""
    sys.stdin.read()
    engine.close()


if __name__ == "__main__":
    main()
