"""Tests under chaos: which faults a run met, and which few of them are enough for its failure.

Rule: a fault of a chaos is a fault with `nth`, so a run without the chaos but with these faults meets the same. A
failure is cut down by running the test with parts of the faults (delta debugging, Zeller and Hildebrandt 2002); what is
left is smallest in the sense that the test passes without any one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from pykafka_broker.testing.answers import ChaosHit
    from pykafka_broker.testing.cluster_nodes import ClusterFaults
    from pykafka_broker.testing.traffic import Fault, Faults

DEFAULT_RATE = 0.05
DEFAULT_RUNS = 60
_MOST_LINES = 20


class ChaosSpec(NamedTuple):
    """The chaos of a marked test.

    shrink_runs: the most runs for cutting a failure down; 0 leaves it as it is.
    """

    seeds: Sequence[int]
    rate: float = DEFAULT_RATE
    events: bool = False
    shrink_runs: int = DEFAULT_RUNS

    @classmethod
    def of(
        cls,
        seeds: int | Iterable[int] = 20,
        rate: float = DEFAULT_RATE,
        events: bool = False,
        shrink_runs: int = DEFAULT_RUNS,
    ) -> ChaosSpec:
        """Return the chaos of a marker with these arguments. `seeds`: the seeds, or how many there are from 1 on.

        Raises:
            ValueError: an argument makes no sense.
        """
        chosen = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
        if not chosen or not all(isinstance(each, int) and each >= 0 for each in chosen):
            raise ValueError("seeds must be a number from 1 on, or a list of numbers from 0 on")
        if not 0 < rate <= 1:
            raise ValueError("rate is a share of all requests: more than 0, at most 1")
        return cls(chosen, float(rate), events, shrink_runs)


class ChaosRun:
    """A single run of a test: under the chaos of a seed, or with some of its faults alone.

    met: the faults that the chaos has drawn; None where that could not be asked.
    """

    def __init__(self, spec: ChaosSpec, seed: int, faults: Sequence[ChaosHit] | None = None) -> None:
        self.spec = spec
        self.seed = seed
        self.faults = faults
        self.met: list[ChaosHit] | None = None
        self.name = "kafka_broker"  # the fixture
        self._of: Faults | None = None
        self._added: list[Fault] = []

    def begin(self, name: str, faults: Faults) -> None:
        """Disturb the broker or cluster of a fixture from now on."""
        self.name, self._of = name, faults
        if self.faults is None:
            faults.chaos(self.seed, self.spec.rate, events=self.spec.events)
            return
        for hit in self.faults:
            self._added.append(add_hit(faults, hit))

    def end(self) -> None:
        """End what disturbs, and note what the chaos has drawn."""
        if self._of is None:
            return
        if self.faults is None:
            self.met = self._of.chaos_state()["met"]
            self._of.chaos(self.seed, 0)
        for fault in self._added:
            fault.remove()


def add_hit(faults: Faults, hit: ChaosHit) -> Fault:
    """Add a fault of a chaos by itself."""
    given: Any = dict(hit)
    node_id = given.pop("node_id", None)
    if node_id is not None:
        faults = cast("ClusterFaults", faults).on(node_id)
    return faults.add(**given)


def line_of(hit: ChaosHit, name: str) -> str:
    """Return the line that adds a fault of a chaos to the broker or cluster of a fixture."""
    given: dict[str, Any] = {key: value for key, value in hit.items() if value not in (None, 0)}
    node_id = given.pop("node_id", None)
    on = "" if node_id is None else f".on({node_id})"
    arguments = ", ".join(
        f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in given.items()
    )
    return f"{name}.faults{on}.add({arguments})"


def shrunk(hits: Sequence[ChaosHit], fails: Callable[[Sequence[ChaosHit]], bool], runs: int) -> list[ChaosHit]:
    """Return faults that are enough for a failure: some of `hits`, which are enough.

    Args:
        fails: runs the test with some of the faults.
        runs: the most runs; what is left then is returned.
    """
    left, parts = list(hits), 2
    while len(left) > 1 and runs > 0:
        length = -(-len(left) // parts)
        chunks = [left[at : at + length] for at in range(0, len(left), length)]
        smaller: list[ChaosHit] | None = None
        for candidate in _candidates(chunks):
            if runs <= 0:
                return left
            runs -= 1
            if fails(candidate):
                smaller = candidate
                break
        if smaller is None:
            if parts >= len(left):
                return left
            parts = min(2 * parts, len(left))
        else:
            parts = 2 if any(smaller is chunk for chunk in chunks) else max(parts - 1, 2)
            left = smaller
    return left


def _candidates(chunks: Sequence[list[ChaosHit]]) -> Iterable[list[ChaosHit]]:
    """Yield each chunk alone, then all but each; of two chunks the second is what the first leaves."""
    yield from chunks
    if len(chunks) > 2:
        for index in range(len(chunks)):
            yield [hit for other, chunk in enumerate(chunks) if other != index for hit in chunk]


class Verdict(NamedTuple):
    """The findings about a failure under chaos.

    enough: faults with which alone the test has failed too; None where it did not fail again.
    """

    run: ChaosRun
    runs: int
    enough: list[ChaosHit] | None

    def text(self) -> str:
        """Return what to read below the failure."""
        run, met = self.run, self.run.met
        began = f"seed {run.seed} at rate {run.spec.rate:g} failed"
        if met is None:
            return f"{began}; what it met is not known, as the broker did not answer any more"
        again = f"the same chaos: @pytest.mark.kafka_chaos(seeds=[{run.seed}], rate={run.spec.rate:g})"
        if run.spec.events:
            again = again[:-1] + ", events=True)"
        if not met:
            return f"{began} though no request met a fault: the failure is not of the chaos"
        if self.enough is None:
            told = _lines(met, run.name)
            return (
                f"{began}; {len(met)} requests met a fault, and with these faults alone the test did not fail again "
                f"within {self.runs} runs:\n{told}\n{again}"
            )
        if not self.enough:
            return f"{began}, and fails without any fault as well: the failure is not of the chaos"
        of = f"{len(self.enough)} of {len(met)} faults {'is' if len(self.enough) == 1 else 'are'} enough"
        return f"{began}; {of} ({self.runs} runs):\n{_lines(self.enough, run.name)}\n{again}"


def _lines(hits: Collection[ChaosHit], name: str) -> str:
    lines = [f"    {line_of(hit, name)}" for hit in list(hits)[:_MOST_LINES]]
    rest = len(hits) - len(lines)
    return "\n".join([*lines, *([f"    and {rest} more"] if rest else [])])
