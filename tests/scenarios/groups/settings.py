"""The settings under which scenarios are recorded and played: timeouts that a recording can wait for."""

CONFIG = {
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.max.size": "4",
    "offset.metadata.max.bytes": "100",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
    "group.consumer.max.size": "4",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.max.size": "4",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.session.timeout.ms": "1500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
