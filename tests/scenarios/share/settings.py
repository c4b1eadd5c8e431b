"""The settings under which scenarios are recorded and played: timeouts that a recording can wait for."""

CONFIG = {
    "offsets.topic.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "4",
}
