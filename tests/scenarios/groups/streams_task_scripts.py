"""Scenarios of tasks of streams groups (KIP-1071): how members get tasks and hand them over.

Rule: each function is one scenario with a group of its own; read it from top to bottom.
"""

from __future__ import annotations

from tests.scenarios.groups.stage import Stage
from tests.scenarios.groups.streams_actor import StreamsMember, endpoint, inner, one_step, two_steps
from tests.scenarios.scripts import Scripts

SCENARIOS = scenario = Scripts[Stage]()


@scenario
def streams_tasks_move_to_another_process(s: Stage) -> None:
    topology = one_step(s.topic("t", 4))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join()
    one.beat(owned={"0": [0, 1, 2, 3]})
    two.join()
    one.describe_streams()
    two.beat()
    shrunk = one.beat()
    one.describe_streams()
    two.beat()
    kept = sorted(shrunk.active_tasks[0].partitions)
    one.beat(owned={"0": kept})
    one.list_groups()
    two.beat()
    two.describe_streams()
    one.beat(-1)
    two.beat()
    two.beat(owned={"0": [0, 1, 2, 3]})
    two.beat(-1)
    two.describe_streams()


@scenario
def streams_tasks_move_twice(s: Stage) -> None:
    topology = one_step(s.topic("t", 6))
    one, two, three = (StreamsMember(s, name, topology) for name in ("one", "two", "three"))
    one.join()
    two.join()
    first = one.beat()
    three.join()
    one.beat(owned={"0": list(range(6))})
    second = one.beat(owned={"0": sorted(first.active_tasks[0].partitions)})
    one.describe_streams()
    two.beat()
    one.beat(owned={"0": sorted(second.active_tasks[0].partitions)})
    two.beat()
    three.beat()
    one.describe_streams()


@scenario
def streams_initial_delay(s: Stage) -> None:
    topology = one_step(s.topic("t", 4))
    # Kafka's order of these processes is theirs in hash tables of any size, and so the same in all releases.
    one, two = StreamsMember(s, "one", topology, "b"), StreamsMember(s, "two", topology, "c")
    one.configure_group(streams_initial_rebalance_delay_ms=1000, streams_session_timeout_ms=40000)
    one.join()
    one.describe_streams()
    one.beat()
    s.wait(300)
    two.join()
    two.beat()
    one.list_groups()
    s.wait(1200)
    one.describe_streams()
    one.beat()
    two.beat()
    one.beat(-1)
    two.beat(-1)
    two.join()
    one.join()
    s.wait(1200)
    two.beat()
    two.beat(-1)
    one.beat(-1)
    one.join()
    one.beat(-1)
    s.wait(1500)
    one.describe_streams()


@scenario
def streams_assignment_interval(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.configure_group(streams_assignment_interval_ms=1000, streams_session_timeout_ms=40000)
    one.join()
    two.join()
    one.describe_streams()
    one.beat()
    two.beat()
    s.wait(1200)
    two.beat()
    one.beat(owned={"0": [0]})
    two.beat()
    one.describe_streams()


@scenario
def streams_threads_of_one_process(s: Stage) -> None:
    topology = one_step(s.topic("t", 4))
    one, two = StreamsMember(s, "one", topology, "p"), StreamsMember(s, "two", topology, "p")
    one.join()
    two.join()
    one.beat()
    one.beat(owned={"0": []})
    two.beat()
    one.describe_streams()


@scenario
def streams_standby_tasks(s: Stage) -> None:
    topology = two_steps(s.topic("t", 2), inner(s, "by-word"), inner(s, "counts"))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.configure_group(streams_num_standby_replicas=1, streams_session_timeout_ms=40000)
    one.join(user_endpoint=endpoint(1))
    one.settle()
    one.beat()
    one.beat(owned={"0": [0, 1], "1": [0, 1]})
    two.join(user_endpoint=endpoint(2))
    shrunk = one.beat()
    owned = {tasks.subtopology_id: tasks.partitions for tasks in shrunk.active_tasks}
    one.beat(owned=owned)
    two.beat()
    one.beat(owned=owned)
    one.describe_streams()
    two.beat()
    one.configure_group(streams_num_standby_replicas=0)
    two.beat()
    one.beat()
    one.describe_streams()


@scenario
def streams_endpoints(s: Stage) -> None:
    topology = two_steps(s.topic("t", 2), inner(s, "by-word"), inner(s, "counts"))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.endpoint_epoch = 0
    two.endpoint_epoch = 0
    one.join()
    one.settle()
    one.beat()
    one.beat(user_endpoint=endpoint(1))
    one.beat()
    one.beat(endpoint_information_epoch=-1)
    two.join(user_endpoint=endpoint(2))
    two.beat()
    one.beat()
    one.beat(-1)
    two.beat()


@scenario
def streams_tasks_that_are_not_given_back(s: Stage) -> None:
    topology = one_step(s.topic("t", 2))
    one, two = StreamsMember(s, "one", topology), StreamsMember(s, "two", topology)
    one.join(rebalance_timeout_ms=700)
    one.beat(owned={"0": [0, 1]})
    two.join()
    one.beat()
    s.wait(400)
    one.beat(owned={"0": [0, 1]})
    s.wait(500)
    one.beat(owned={"0": [0, 1]})
    two.beat()
    two.describe_streams()
