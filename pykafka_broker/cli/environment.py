"""`KAFKA_...` variables, as the container images of Kafka read them.

Rule: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`: the prefix goes, the rest is lower case, `_` is a dot, `__` an
underscore, `___` a dash; `CLUSTER_ID` is the cluster that the data directory has to be of. What starts Java or its
logging, and what Kubernetes writes for a service named "kafka", is no config.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CLUSTER_ID = "CLUSTER_ID"
_PREFIX = "KAFKA_"
_OTHER_PREFIX = "KAFKA_CFG_"  # one family of images writes KAFKA_CFG_LOG_RETENTION_MS

NOT_CONFIGS = {
    "KAFKA_CLASSPATH",
    "KAFKA_DEBUG",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
}
_NOT_CONFIG_PATTERN = re.compile(
    r"KAFKA_LOG4J_\w+"
    r"|KAFKA_SERVICE_(HOST|PORT)\w*"
    r"|KAFKA_PORT_\d+_(TCP|UDP)\w*"
    r"|KAFKA_\w+_(SERVICE_(HOST|PORT)\w*|PORT_\d+_(TCP|UDP)\w*)"
)
_SERVICE_URL = re.compile(r"(tcp|udp)://")
_RUNS = {1: ".", 2: "_", 3: "-"}


def configs_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The broker settings among `environment`."""
    return {
        config_name(name): value
        for name, value in environment.items()
        if name.startswith(_PREFIX) and not is_ignored(name, value)
    }


def cluster_id_of(environment: Mapping[str, str]) -> str:
    """The cluster that the data directory has to be of, a new one from now on; or nothing."""
    return environment.get(CLUSTER_ID, "").strip()


def is_ignored(name: str, value: str) -> bool:
    if name in NOT_CONFIGS or _NOT_CONFIG_PATTERN.fullmatch(name):
        return True
    return name.endswith("_PORT") and _SERVICE_URL.match(value) is not None  # KAFKA_PORT=tcp://10.0.0.1:9092


def config_name(variable: str) -> str:
    prefix = _OTHER_PREFIX if variable.startswith(_OTHER_PREFIX) else _PREFIX
    rest = variable.removeprefix(prefix).lower()
    return re.sub("_{1,3}", lambda run: _RUNS[len(run[0])], rest)
