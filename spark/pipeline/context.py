"""The context that every job gets: session, settings, brokers, and the event that stops the job."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from pipeline.kafka import Kafka
from pipeline.settings import Settings


@dataclass
class Context:
    spark: SparkSession
    settings: Settings
    kafka: Kafka
    stop: threading.Event = field(default_factory=threading.Event)  # set it, and a stream ends after its batch
