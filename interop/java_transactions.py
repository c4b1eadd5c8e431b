"""Java's own transactional producer and admin client, driven from here through the JVM that the tools run in. Of all
clients it is the first to speak each new version of the transaction protocol.
"""

from typing import Any, Self

from interop.java_tools import JavaTools

SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer"


class JavaProducer:
    """A `KafkaProducer<String, String>` with a transactional id, initialised."""

    def __init__(self, jvm: Any, properties: Any) -> None:
        self._jvm = jvm
        self._producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)
        self._producer.initTransactions()

    def begin(self) -> Self:
        self._producer.beginTransaction()
        return self

    def send(self, topic: str, *values: str, partition: int = 0) -> Self:
        """Send, and wait until everything is acknowledged."""
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord
        sent = [self._producer.send(record(topic, partition, None, value)) for value in values]
        self._producer.flush()
        for future in sent:
            future.get()
        return self

    def commit(self) -> None:
        self._producer.commitTransaction()

    def abort(self) -> None:
        self._producer.abortTransaction()

    def leave(self) -> None:
        """Close the producer at once, as if killed: an open transaction stays open."""
        self._producer.close(self._jvm.java.time.Duration.ZERO)


class JavaClients(JavaTools):
    """Kafka's tools and Java clients, in one JVM."""

    @property
    def jvm(self) -> Any:
        return self._gateway.jvm

    def properties(self, **config: object) -> Any:
        properties = self.jvm.java.util.Properties()
        for key, value in config.items():
            properties.put(key.replace("_", "."), str(value))
        return properties

    def producer(self, bootstrap: str, transactional_id: str, **config: object) -> JavaProducer:
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "key.serializer": SERIALIZER,
            "value.serializer": SERIALIZER,
            **config,
        }
        return JavaProducer(self.jvm, self.properties(**settings))

    def fence(self, bootstrap: str, *transactional_ids: str) -> None:
        """Fence the producers of these transactional ids (Kafka: Admin.fenceProducers)."""
        admin = self.jvm.org.apache.kafka.clients.admin.Admin.create(self.properties(bootstrap_servers=bootstrap))
        try:
            ids = self.jvm.java.util.ArrayList()
            for one in transactional_ids:
                ids.add(one)
            admin.fenceProducers(ids).all().get()
        finally:
            admin.close()
