"""Kafka's command-line tools, all in one JVM. Rule: a tool runs through its own `main`, as from its shell script, and
what it logs as an error goes to standard error; only the exit of the JVM is held back, since a start of a JVM costs a
second and the suite makes some fifty calls.

py4j (which comes with PySpark) is the door into the JVM.
"""

import glob
import logging
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from interop.java import java_command, kafka_classpath
from interop.java_exceptions import plain_exceptions

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-end-to-end-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
ALONE = {"kafka-verifiable-consumer", "kafka-verifiable-producer"}  # they print from threads until their JVM ends

_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('tools_log.properties')}"
UNWOUND = "An exception was raised by the Python Proxy"


@dataclass(frozen=True)
class Outcome:
    """What a tool left behind; `status` is the exit code that the shell would have seen."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class _ExitHeld:
    """Stands in for Runtime.exit: notes the first status and unwinds `main` by raising into it."""

    def __init__(self) -> None:
        self.status: int | None = None

    def execute(self, status: int, message: str | None) -> None:
        if self.status is None:
            self.status = status
        raise SystemError(f"exit {status}: {message}")

    class Java:
        implements = ["org.apache.kafka.common.utils.Exit$Procedure"]


class _HooksKept:
    """Collects what a tool would have done at the exit of its JVM, such as flushing its producer."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []

    def addShutdownHook(self, name: str, hook: Any) -> None:  # Java's name
        self.hooks.append(hook)

    class Java:
        implements = ["org.apache.kafka.common.utils.Exit$ShutdownHookAdder"]


def _of_spark(*patterns: str) -> list[str]:
    """Return jars that come with PySpark."""
    folder = os.path.join(os.path.dirname(pyspark.__file__), "jars")
    return [path for each in patterns for path in glob.glob(os.path.join(folder, f"{each}.jar"))]


def _classpath() -> str:
    """Return Kafka's jars, and before them the way from SLF4J to Log4j, which they do not have."""
    return os.pathsep.join([*_of_spark("slf4j-api-*", "log4j-slf4j2-impl-*"), kafka_classpath()])


def run_alone(tool: str, *arguments: str, stdin: str = "") -> Outcome:
    """One tool in a JVM of its own."""
    command = [*java_command("-XX:TieredStopAtLevel=1", _LOGGING, "-cp", _classpath()), TOOLS[tool], *arguments]
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


class JavaTools:
    """The tools, to be run with `tools.run("kafka-topics", "--list", ...)`."""

    def __init__(self) -> None:
        (bridge,) = _of_spark("py4j*")
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # our own unwinding out of `main` is no error
        port, token = launch_gateway(
            classpath=os.pathsep.join([bridge, _classpath()]),
            jarpath=bridge,
            java_path=java_command()[0],
            javaopts=["-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m", _LOGGING],
            die_on_exit=True,
            enable_auth=True,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token),
            callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        listening = self._gateway.get_callback_server().get_listening_port()
        java_side = self._gateway.java_gateway_server
        java_side.resetCallbackClient(java_side.getCallbackClient().getAddress(), listening)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        """Run one tool to its end."""
        if tool in ALONE:
            return run_alone(tool, *arguments, stdin=stdin)
        jvm = self._gateway.jvm
        system, leave = jvm.java.lang.System, jvm.org.apache.kafka.common.utils.Exit
        out, err = jvm.java.io.ByteArrayOutputStream(), jvm.java.io.ByteArrayOutputStream()
        held, kept = _ExitHeld(), _HooksKept()
        before = system.out, system.err, getattr(system, "in")
        system.setOut(jvm.java.io.PrintStream(out, True))
        system.setErr(jvm.java.io.PrintStream(err, True))
        system.setIn(jvm.java.io.ByteArrayInputStream(stdin.encode()))
        leave.setExitProcedure(held)
        leave.setShutdownHookAdder(kept)
        thrown = ""
        try:
            with plain_exceptions():
                self._java_class(TOOLS[tool]).main(self._strings(arguments))
        except Py4JJavaError as error:
            thrown = str(error.java_exception)
        finally:
            for hook in kept.hooks:
                hook.run()
            leave.resetExitProcedure()
            leave.resetShutdownHookAdder()
            system.setOut(before[0])
            system.setErr(before[1])
            system.setIn(before[2])
        status = held.status if held.status is not None else int(bool(thrown))
        said = err.toString().partition(UNWOUND)[0]  # tools that catch everything print our unwinding too
        return Outcome(status, out.toString(), said + (thrown if held.status is None else ""))

    def _java_class(self, name: str) -> Any:
        found: Any = self._gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _strings(self, values: tuple[str, ...]) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def close(self) -> None:
        self._gateway.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
