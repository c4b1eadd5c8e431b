"""Kafka's command-line tools, all in one JVM. Rule: a tool runs through its own `main`, as from its shell script, and
what it logs as an error goes to standard error; only the exit of the JVM is held back, since a start of a JVM costs a
second and the suite makes some fifty calls. Nothing in the JVM calls back into Python, as a lost callback would hang
both sides.

py4j is the door into the JVM.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from interop.jars import KAFKA_VERSION, logging_jars
from interop.java import QUICK_JVM, java_command, kafka_classpath
from interop.java_exceptions import plain_exceptions
from tests.releases.other import number

TOOLS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
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
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
EXIT = "org.apache.kafka.common.utils.internals.Exit"
# What has moved to where it is now, by the first release in which it is there: its class before.
_MOVED = {
    "org.apache.kafka.tools.ConfigCommand": ((4, 4), "kafka.admin.ConfigCommand"),
    EXIT: ((4, 4), "org.apache.kafka.common.utils.Exit"),
}
# These tools print from threads until their JVM ends.
ALONE = {"kafka-verifiable-consumer", "kafka-verifiable-producer", "kafka-verifiable-share-consumer"}

_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('tools_log.properties')}"
UNWOUND = "the tool asked to exit"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a tool; `status` is the exit code that the shell would have seen."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def _classpath(release: str = KAFKA_VERSION) -> str:
    """Return a release's jars, and before them the way from SLF4J to Log4j, which they do not have."""
    logging = os.environ.get("KAFKA_LOGGING_JARS") or logging_jars()
    return os.pathsep.join([f"{logging}/*", kafka_classpath(release)])


def name_in(release: str, name: str) -> str:
    """Return the name that a class has in a release of Kafka."""
    since, before = _MOVED.get(name, ((), name))
    return name if number(release) >= since else before


def command_of(tool: str, *arguments: str, release: str = KAFKA_VERSION) -> list[str]:
    """Return the command that runs one tool of a release in a JVM of its own."""
    main = name_in(release, TOOLS[tool])
    quiet = ("-Xlog:disable", *QUICK_JVM)  # the JVM's own warnings would be on standard output
    return [*java_command(*quiet, _LOGGING, "-cp", _classpath(release)), main, *arguments]


def run_alone(tool: str, *arguments: str, stdin: str = "", release: str = KAFKA_VERSION) -> Outcome:
    """Run one tool of a release in a JVM of its own."""
    command = command_of(tool, *arguments, release=release)
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=240, check=False)
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


class JavaTools:
    """The tools of a release, to be run with `tools.run("kafka-topics", "--list", ...)`; before 4.0 clients only."""

    def __init__(self, release: str = KAFKA_VERSION) -> None:
        self.release = release
        port, token, self._process = launch_gateway(
            classpath=_classpath(release),
            java_path=java_command()[0],
            javaopts=[*QUICK_JVM, "-Xmx512m", _LOGGING],
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))

    @property
    def _exit(self) -> str:
        return name_in(self.release, EXIT)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        """Run one tool to its end."""
        if tool in ALONE:
            return run_alone(tool, *arguments, stdin=stdin, release=self.release)
        jvm = self._gateway.jvm
        system, leave = jvm.java.lang.System, self._java_class(self._exit)
        out, err = jvm.java.io.ByteArrayOutputStream(), jvm.java.io.ByteArrayOutputStream()
        statuses, hooks = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
        before = system.out, system.err, getattr(system, "in")
        system.setOut(jvm.java.io.PrintStream(out, True))
        system.setErr(jvm.java.io.PrintStream(err, True))
        system.setIn(jvm.java.io.ByteArrayInputStream(stdin.encode()))
        leave.setExitProcedure(self._exit_procedure(statuses))
        leave.setShutdownHookAdder(self._shutdown_hook_adder(hooks))
        thrown = ""
        try:
            with plain_exceptions():
                self._java_class(name_in(self.release, TOOLS[tool])).main(self._array(jvm.java.lang.String, arguments))
        except Py4JJavaError as error:
            thrown = str(error.java_exception)
        finally:
            for hook in list(hooks):
                hook.run()
            leave.resetExitProcedure()
            leave.resetShutdownHookAdder()
            system.setOut(before[0])
            system.setErr(before[1])
            system.setIn(before[2])
        exited = list(statuses)
        status = exited[0] if exited else int(bool(thrown))
        said = err.toString().partition(UNWOUND)[0]  # tools that catch everything print our unwinding too
        return Outcome(status, out.toString(), said + ("" if exited else thrown))

    def _exit_procedure(self, statuses: Any) -> Any:
        """Return a stand-in for Runtime.exit that adds the status to the list and unwinds `main` by an exception."""
        lang, handles = self._gateway.jvm.java.lang, self._gateway.jvm.java.lang.invoke.MethodHandles
        void, status, message = lang.Void.TYPE, lang.Integer.TYPE, self._class("java.lang.String")
        unwind = handles.throwException(void, self._class("java.lang.RuntimeException"))
        unwind = unwind.bindTo(lang.RuntimeException(UNWOUND))
        unwind = handles.dropArguments(unwind, 0, self._classes(status, message))
        exit_ = handles.foldArguments(unwind, self._adds_to(statuses, status))
        return self._implemented(f"{self._exit}$Procedure", exit_)

    def _shutdown_hook_adder(self, hooks: Any) -> Any:
        """Return what adds a tool's hooks for the exit of its JVM, such as flushing its producer, to the list."""
        handles = self._gateway.jvm.java.lang.invoke.MethodHandles
        add = self._adds_to(hooks, self._class("java.lang.Runnable"))
        named = handles.dropArguments(add, 0, self._classes(self._class("java.lang.String")))
        return self._implemented(f"{self._exit}$ShutdownHookAdder", named)

    def _adds_to(self, values: Any, kind: Any) -> Any:
        """Return a method handle that adds a value of the kind to the list and returns nothing."""
        lang, invoke = self._gateway.jvm.java.lang, self._gateway.jvm.java.lang.invoke
        add = invoke.MethodType.methodType(lang.Boolean.TYPE, self._class("java.lang.Object"))
        bound = invoke.MethodHandles.publicLookup().findVirtual(values.getClass(), "add", add).bindTo(values)
        return bound.asType(invoke.MethodType.methodType(lang.Void.TYPE, kind))

    def _implemented(self, interface: str, handle: Any) -> Any:
        """Return an object of the interface whose only method is the handle."""
        return self._gateway.jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(
            self._class(interface), handle
        )

    def _class(self, name: str) -> Any:
        return self._gateway.jvm.java.lang.Class.forName(name)

    def _classes(self, *classes: Any) -> Any:
        return self._array(self._gateway.jvm.java.lang.Class, classes)

    def _java_class(self, name: str) -> Any:
        found: Any = self._gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _array(self, kind: Any, values: Sequence[Any]) -> Any:
        array = self._gateway.new_array(kind, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def close(self) -> None:
        """End the JVM: many modules of tests have one, each of some hundred megabytes."""
        self._gateway.shutdown()
        self._process.kill()
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
