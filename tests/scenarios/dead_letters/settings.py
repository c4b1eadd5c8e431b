"""The settings under which scenarios of dead letters are recorded and played."""

from tests.scenarios.share import settings as share

CONFIG = {**share.CONFIG, "share.coordinator.state.topic.num.partitions": "1"}
EMULATED = {**CONFIG, "pykafka.emulate": "4.4"}  # of this broker
