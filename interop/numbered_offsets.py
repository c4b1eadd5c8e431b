"""Offsets that many groups commit, for tests that kill the broker. Rule: each group commits 0, 1, 2, … for one
partition by plain requests and notes what was acknowledged: afterwards the broker has that one, or one that got no
answer.
"""

import threading

from interop.raw import Closed, RawClient
from interop.waiting import eventually
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS = 20  # enough to be in many partitions of `__consumer_offsets`
NOTHING = -1  # was committed by the group


class NumberedOffsets:
    """A thread that commits for one group after the other, over a connection that is made anew when it breaks."""

    def __init__(self, bootstrap: str, topic: str, pause_s: float = 0.005) -> None:
        self._pause_s = pause_s
        self._bootstrap, self._topic = bootstrap, topic
        self._groups = [f"numbered-{number}" for number in range(GROUPS)]
        self._acknowledged = dict.fromkeys(self._groups, NOTHING)
        self._sent = dict.fromkeys(self._groups, NOTHING)
        self.commits = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with RawClient(self._bootstrap) as client:
                    client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=self._groups), 4)
                    while not self._stop.is_set():
                        for group in self._groups:
                            self._commit(client, group)
                        self._stop.wait(self._pause_s)
            except (OSError, Closed):
                self._stop.wait(0.02)

    def _commit(self, client: RawClient, group: str) -> None:
        offset = self._sent[group] = self._sent[group] + 1
        wanted = [OffsetCommitRequestTopic(self._topic, partitions=[OffsetCommitRequestPartition(0, offset)])]
        answer = client.call(OffsetCommitRequest(group, topics=wanted), 8)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self._acknowledged[group] = offset
            self.commits += 1

    def check(self) -> None:
        asked = [OffsetFetchRequestGroup(group, topics=None) for group in self._groups]
        request = OffsetFetchRequest(groups=asked, require_stable=True)
        with RawClient(self._bootstrap) as client:
            # A broker that has just started may still read some of the logs.
            eventually(lambda: {group.error_code for group in client.call(request, 8).groups}, {ErrorCode.NONE})
            answer = client.call(request, 8)
        for found in answer.groups:
            offset = found.topics[0].partitions[0].committed_offset if found.topics else NOTHING
            low, high = self._acknowledged[found.group_id], self._sent[found.group_id]
            assert low <= offset <= high, f"{found.group_id}: {offset} is there, {low} was acknowledged, {high} sent"
