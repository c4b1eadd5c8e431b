"""`python -m pipeline JOB [options]`. Rule: what can be refused is refused before a JVM starts and before a byte is
written; the summary of the run is one line of JSON on standard output, everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pipeline import source
from pipeline.errors import JobFailed, PipelineError, UnknownTopic, perhaps
from pipeline.settings import JOBS, Settings, add_arguments, fields_of, load

if TYPE_CHECKING:
    from pipeline.flows import Flow
    from pipeline.kafka import Kafka

WITHOUT_KAFKA = ("generate", "new")
WITHOUT_BROKER = ("compact",)  # jobs on Spark alone


def parser() -> argparse.ArgumentParser:
    outer = argparse.ArgumentParser(prog="python -m pipeline", description="A data pipeline on Spark and Kafka.")
    jobs = outer.add_subparsers(dest="job", required=True, metavar="JOB")
    for job, words in JOBS.items():
        described = words[0].upper() + words[1:] + "."
        add_arguments(jobs.add_parser(job, help=words, description=described, allow_abbrev=False), job)
    return outer


def main(argv: Sequence[str] | None = None, stop: threading.Event | None = None) -> int:
    """Run a job and return the exit code: 0, or that of the error's class."""
    whole = parser()
    options, unknown = whole.parse_known_args(argv)
    if unknown:
        known = (f"--{each.name.replace('_', '-')}" for each in fields_of(options.job))
        whole.error(f"there is no option {unknown[0]}{perhaps(unknown[0].partition('=')[0], known)}")
    arguments = vars(options)
    job = arguments.pop("job")
    try:
        summary = start(job, load(job, arguments), stop or stop_at_signals())
    except PipelineError as error:
        print(f"{job}: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps({"job": job, **{name: value for name, value in summary.items() if name != "batches_metrics"}}))
    return 0


def stop_at_signals() -> threading.Event:
    """Let SIGTERM and Ctrl-C end a stream after the batch that is under way, and a second one at once."""
    stop = threading.Event()

    def on_signal(number: int, _: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
    return stop


def start(job: str, settings: Settings, stop: threading.Event) -> dict[str, Any]:
    if job in WITHOUT_KAFKA:
        summary: dict[str, Any] = importlib.import_module(f"pipeline.{job}").write(settings)
        return summary
    from confluent_kafka import KafkaException

    from pipeline import kafka

    try:
        if job == "demo":
            from pipeline import demo

            return demo.run(settings, stop)
        return with_kafka(job, settings, stop)
    except KafkaException as error:
        raise kafka.in_words(error) from error


def with_kafka(job: str, settings: Settings, stop: threading.Event) -> dict[str, Any]:
    from pipeline.flows import Flow, flows_of
    from pipeline.kafka import Kafka

    module = importlib.import_module(f"pipeline.{job}")
    flows = flows_of(settings) if job == "flows" else [Flow(job, job, settings)]
    for flow in flows:
        flow.check()
        flow.reads()
    kafka = Kafka(settings)
    if job in WITHOUT_BROKER:
        return with_spark(module.run, job, settings, kafka, stop)
    for flow in flows:
        look_at_brokers(flow, Kafka(flow.settings))
    if job == "report":
        written: dict[str, Any] = module.write(settings, kafka)
        return written
    return with_spark(module.run, job, settings, kafka, stop)


def look_at_brokers(flow: Flow, kafka: Kafka) -> None:
    """Make sure that all is there and nobody else's: the brokers, the topics, and what the job has written before."""
    kafka.check_reachable()
    require_topics(flow.reads(), flow.settings, kafka)
    for topic in flow.writes():
        kafka.check_writable(topic)
    flow.check_claim(kafka)


def require_topics(topics: Iterable[str], settings: Settings, kafka: Kafka) -> None:
    """Make sure that what a job reads is there: the topics, or one at least that the pattern matches."""
    if "subscribePattern" in settings.source:
        pattern = source.pattern(settings.source)
        if not kafka.matching(pattern):
            raise UnknownTopic(f"there is no topic that matches {pattern.pattern} at {settings.bootstrap_servers}")
        return
    for topic in topics:
        kafka.partitions(topic)


def with_spark(
    run: Callable[[Any], dict[str, Any]], job: str, settings: Settings, kafka: Kafka, stop: threading.Event
) -> dict[str, Any]:
    """Run in the session there is, or in a new one that ends with the job."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from pipeline.context import Context
    from pipeline.runner import in_words
    from pipeline.session import build_session

    borrowed = SparkSession.getActiveSession() is not None
    try:
        session = build_session(settings, job)
    except RuntimeError as error:  # PySpark's word for a JVM that did not start
        raise JobFailed(f"Spark can't be started (is there a Java 17?): {error}") from error
    try:
        if not borrowed:
            keep_signals()
        return run(Context(session, settings, kafka, stop))
    except (PySparkException, Py4JJavaError) as error:
        raise in_words(error) from error
    finally:
        if not borrowed:
            session.stop()


def keep_signals() -> None:
    """Take Ctrl-C back from Spark, which takes it for itself when its context starts."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
