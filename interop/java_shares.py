"""Java's own share consumer, driven from here: no other client speaks the protocol yet."""

from typing import Any

from interop.java_transactions import JavaClients

DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer"


class JavaShareConsumer:
    """A `KafkaShareConsumer<String, String>` with explicit acknowledgements unless told otherwise."""

    def __init__(self, clients: JavaClients, bootstrap: str, group: str, topics: list[str], **config: object) -> None:
        self._jvm = clients.jvm
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "key.deserializer": DESERIALIZER,
            "value.deserializer": DESERIALIZER,
            "share.acknowledgement.mode": "explicit",
            **config,
        }
        self.consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(clients.properties(**settings))
        names = self._jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        self.consumer.subscribe(names)

    def poll(self, seconds: float = 15.0) -> list[Any]:
        """Wait for the next records and return them."""
        found = self.consumer.poll(self._jvm.java.time.Duration.ofMillis(int(seconds * 1000))).iterator()
        records = []
        while found.hasNext():
            records.append(found.next())
        return records

    def acknowledge(self, record: Any, how: str) -> None:
        """Acknowledge a record; `how` is ACCEPT, RELEASE, REJECT or RENEW. `commit` or the next `poll` sends it."""
        kind = getattr(self._jvm.org.apache.kafka.clients.consumer.AcknowledgeType, how)
        self.consumer.acknowledge(record, kind)

    def commit(self) -> dict[str, str]:
        """Send the acknowledgements; return the errors by partition."""
        outcome = self.consumer.commitSync()
        return {
            entry.getKey().toString(): str(entry.getValue().get().toString())
            for entry in outcome.entrySet()
            if entry.getValue().isPresent()
        }

    def accept_all(self, seconds: float = 10.0) -> list[str]:
        """Poll once and accept the records that come."""
        records = self.poll(seconds)
        for record in records:
            self.acknowledge(record, "ACCEPT")
        assert not self.commit()
        return [record.value() for record in records]

    def close(self) -> None:
        """Close the consumer with little patience: at the end of a test its broker may have gone."""
        self.consumer.close(self._jvm.java.time.Duration.ofSeconds(3))
