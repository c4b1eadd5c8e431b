"""Tests under chaos: which faults a run met, and which few of them are enough for its failure.

Rule: a fault of a chaos is a fault with `nth`, so a run without the chaos but with these faults meets the same. A
failure is cut down by running the test with parts of the faults; what is left is smallest in the sense that the test
passes without any one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError
from pykafka_broker.testing.trouble import DEFAULT_MEAN_MS, Blow, ClusterTrouble, check_kinds, drawn, only, written

if TYPE_CHECKING:
    from pykafka_broker.testing.answers import ChaosHit
    from pykafka_broker.testing.cluster import KafkaCluster
    from pykafka_broker.testing.cluster_traffic import ClusterFaults
    from pykafka_broker.testing.traffic import Fault, Faults

    Hit = ChaosHit | Blow

H = TypeVar("H")
DEFAULT_RATE = 0.05
DEFAULT_RUNS = 60
_MOST_LINES = 20


@dataclass
class ChaosSpec:
    """The chaos of a marked test. Raises ValueError for an argument that makes no sense.

    seeds: the seeds, or how many there are from 1 on.
    trouble, mean_ms, most_down: of the processes of a cluster, as of `KafkaCluster.trouble`.
    api, client_id, topic, group: limits of the chaos, as of `faults.chaos`.
    shrink_runs: the most runs for cutting a failure down; 0 leaves it as it is.
    """

    seeds: Any = 20  # a number, or an iterable of numbers; a list afterwards
    rate: float = DEFAULT_RATE
    events: bool = False
    shrink_runs: int = DEFAULT_RUNS
    trouble: Any = ()
    mean_ms: int = DEFAULT_MEAN_MS
    most_down: int = 1
    api: str | Sequence[str] | None = None
    client_id: str | None = None
    topic: str | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        self.seeds = list(range(1, self.seeds + 1)) if isinstance(self.seeds, int) else list(self.seeds)
        if not self.seeds or not all(isinstance(each, int) and each >= 0 for each in self.seeds):
            raise ValueError("seeds must be a number from 1 on, or a list of numbers from 0 on")
        self.trouble = check_kinds(self.trouble) if self.trouble else []
        if not 0 <= self.rate <= 1 or not (self.rate or self.trouble):
            raise ValueError("rate is a share of all requests: more than 0, at most 1, and 0 with trouble alone")
        if self.mean_ms < 1 or self.most_down < 1:
            raise ValueError("mean_ms and most_down must be at least 1")
        if self.limits and not self.rate:
            raise ValueError("api, client_id, topic and group limit the faults of a rate; trouble is of processes")

    @property
    def limits(self) -> dict[str, Any]:
        """The limits that are set."""
        named = {"api": self.api, "client_id": self.client_id, "topic": self.topic, "group": self.group}
        return {name: value for name, value in named.items() if value is not None}


class ChaosRun:
    """A single run of a test: under the chaos of a seed, or with some of its faults alone.

    met: the faults that the chaos has drawn; None where that could not be asked.
    """

    def __init__(self, spec: ChaosSpec, seed: int, faults: Sequence[Hit] | None = None) -> None:
        self.spec = spec
        self.seed = seed
        self.faults = faults
        self.met: Sequence[Hit] | None = None
        self.name = "kafka_broker"  # the fixture
        self._of: Faults | None = None
        self._cluster: KafkaCluster | None = None
        self._trouble: ClusterTrouble | None = None
        self._of_ended: list[Hit] = []  # faults that were drawn at processes that have ended by now
        self._fitted: int | None = None  # requests that the chaos might have disturbed; None while that is not known
        self._starts: Counter[int] = Counter()  # how often the trouble has started a broker again
        self._added: list[Fault] = []

    @property
    def is_idle(self) -> bool:
        """Whether no request fits the chaos, so that another seed can't disturb the test either."""
        return self._fitted == 0

    def begin(self, name: str, faults: Faults, cluster: KafkaCluster | None = None) -> None:
        """Disturb the broker or cluster of a fixture from now on."""
        self.name, self._of, self._cluster = name, faults, cluster
        if self.faults is None:
            if self.spec.rate:
                faults.chaos(self.seed, self.spec.rate, events=self.spec.events, **self.spec.limits)
            if self.spec.trouble and cluster is not None:
                spec = self.spec
                hooks = self._note_hits, self._count_start
                trouble = drawn(cluster, spec.trouble, self.seed, spec.mean_ms, spec.most_down, *hooks)
                self._trouble = cluster._keep(trouble)  # for `calm`, too
            return
        for hit in self.faults:
            if not isinstance(hit, Blow) and not hit.get("start"):
                self._added.append(add_hit(faults, hit))
        blows = [hit for hit in self.faults if isinstance(hit, Blow)]
        if blows and cluster is not None:
            self._trouble = cluster._keep(only(cluster, blows, self._count_start))

    def _note_hits(self, broker: int) -> None:
        """Note what was drawn at a broker that is about to end: its next process knows nothing of it."""
        if self._cluster is not None and self.spec.rate:
            with suppress(BrokerError, ControlError, OSError):
                self._of_ended += self._hits_of(self._cluster.faults.on(broker))

    def _hits_of(self, faults: Faults) -> list[Hit]:
        """Return what the chaos has drawn; of a broker that was started again, with the number of the start."""
        met = faults.chaos_state()["met"]
        for hit in met:
            if start := self._starts[hit.get("node_id", -1)]:
                hit["start"] = start
        return [*met]

    def _count_start(self, broker: int) -> None:
        """Count that a broker was started again, and add what is for this start."""
        self._starts[broker] += 1
        for hit in self.faults or ():
            if self._cluster is None or isinstance(hit, Blow) or hit.get("node_id") != broker:
                continue
            if hit.get("start") == self._starts[broker]:
                with suppress(BrokerError, ControlError, OSError):
                    self._added.append(add_hit(self._cluster.faults, hit))

    def end(self) -> None:
        """End what disturbs, and note what the chaos has drawn."""
        if self._of is None:
            return
        faults, self._of = self._of, None
        came: list[Hit] = []
        if self._trouble is not None:
            self._trouble.end()
            came += self._trouble.came
        if self._cluster is not None:
            faults = self._cluster.faults  # of the brokers that run now
        if self.faults is None:
            if self.spec.rate:
                with suppress(BrokerError) if came else nullcontext():  # all have started anew
                    came = [*self._of_ended, *self._hits_of(faults), *came]
                    faults.chaos(self.seed, 0)
                    self._note_fitted(faults)
            self.met = came
        for fault in self._added:
            with (
                suppress(ControlError, OSError) if self._trouble is not None else nullcontext()
            ):  # its broker was killed
                fault.remove()

    def _note_fitted(self, faults: Faults) -> None:
        """Note how many requests fit, unless a process has ended that knew of some."""
        of_each = [faults] if self._cluster is None else [node.faults for node in self._cluster.brokers]
        if not self.spec.trouble:
            with suppress(BrokerError, ControlError, OSError):
                self._fitted = sum(each.chaos_state()["fitted"] for each in of_each)


def add_hit(faults: Faults, hit: ChaosHit) -> Fault:
    """Add a fault of a chaos by itself."""
    given: Any = dict(hit)
    node_id = given.pop("node_id", None)
    given.pop("start", None)
    if node_id is not None:
        faults = cast("ClusterFaults", faults).on(node_id)
    return faults.add(**given)


def line_of(hit: Hit, name: str) -> str:
    """Return the line that adds a fault of a chaos to the broker or cluster of a fixture."""
    if isinstance(hit, Blow):
        return hit.line(name)
    given: dict[str, Any] = {key: value for key, value in hit.items() if value not in (None, 0)}
    node_id, start = given.pop("node_id", None), given.pop("start", None)
    on = "" if node_id is None else f".on({node_id})"
    arguments = ", ".join(f"{key}={written(value)}" for key, value in given.items())
    when = "" if start is None else f"  # after start {start} of this broker by the trouble"
    return f"{name}.faults{on}.add({arguments}){when}"


def shrunk(hits: Sequence[H], fails: Callable[[Sequence[H]], bool], runs: int) -> list[H]:
    """Return faults that are enough for a failure.

    A run with the first faults alone is the same run up to the last of them. A bisection finds how many of the first
    are enough; the last one of these is needed, and the next bisection finds the fault before it that is needed too.

    Args:
        hits: all faults, in the order in which they were met; the test fails with them, and passes without any.
        fails: runs the test with some of the faults.
        runs: the most runs; what is left then is returned.
    """
    needed: list[H] = []
    left = list(hits)
    while left:
        too_few, enough = -1 if needed else 0, len(left)  # so many of those left
        while enough - too_few > 1:
            if runs <= 0:
                return left[:enough] + needed
            runs -= 1
            some = 0 if too_few < 0 else (too_few + enough) // 2  # most failures have a single cause
            if fails(left[:some] + needed):
                enough = some
            else:
                too_few = some
        if not enough:
            break
        left, needed = left[: enough - 1], [left[enough - 1], *needed]
    for index in range(1, len(needed)):  # more faults may have hidden that fewer are enough
        fewer = needed[:index] + needed[index + 1 :]
        if runs > 0 and fails(fewer):
            return shrunk(fewer, fails, runs - 1)
        runs -= 1
    return needed


def nothing_fits(spec: ChaosSpec) -> str:
    """Return the failure of a test that no chaos can disturb."""
    limits = ", ".join(f"{name}={written(value)}" for name, value in spec.limits.items())
    of = f" of {limits}" if limits else ""
    return f"no request fits the chaos{of}, so it disturbs the test under no seed: do its clients use another broker?"


class Verdict(NamedTuple):
    """The findings about a failure under chaos.

    enough: faults with which alone the test has failed too; None where it did not fail again.
    """

    run: ChaosRun
    runs: int
    enough: Sequence[Hit] | None

    def text(self) -> str:
        """Return what to read below the failure."""
        run, met = self.run, self.run.met
        spec = run.spec
        of = [f"at rate {spec.rate:g}"] if spec.rate else []
        began = " ".join([f"seed {run.seed}", *of, *(["with trouble"] if spec.trouble else []), "failed"])
        if met is None:
            return f"{began}; what it met is not known, as the broker did not answer any more"
        again = f"the same chaos: @pytest.mark.kafka_chaos({', '.join(_arguments(run))})"
        if not met:
            return f"{began} though no request met a fault: the failure is not of the chaos"
        of_what = "faults came" if spec.trouble else "requests met a fault"
        if self.enough is None:
            told = _lines(met, run.name)
            return (
                f"{began}; {len(met)} {of_what}, and with these faults alone the test did not fail again "
                f"within {self.runs} runs:\n{told}\n{again}"
            )
        if not self.enough:
            return f"{began}, and fails without any fault as well: the failure is not of the chaos"
        enough = f"{len(self.enough)} of {len(met)} faults {'is' if len(self.enough) == 1 else 'are'} enough"
        return f"{began}; {enough} ({self.runs} runs):\n{_lines(self.enough, run.name)}\n{again}"


def _arguments(run: ChaosRun) -> list[str]:
    """Return the arguments of a marker that makes the same chaos."""
    spec = run.spec
    given = [f"seeds=[{run.seed}]", f"rate={spec.rate:g}"]
    if spec.events:
        given.append("events=True")
    given += [f"{name}={written(value)}" for name, value in spec.limits.items()]
    if spec.trouble:
        given += [f"trouble={written(spec.trouble)}", f"mean_ms={spec.mean_ms}"]
        given += [f"most_down={spec.most_down}"] if spec.most_down != 1 else []
    return given


def _lines(hits: Collection[Hit], name: str) -> str:
    lines = [f"    {line_of(hit, name)}" for hit in list(hits)[:_MOST_LINES]]
    rest = len(hits) - len(lines)
    return "\n".join([*lines, *([f"    and {rest} more"] if rest else [])])
