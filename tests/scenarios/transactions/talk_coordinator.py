"""Requests to the transaction coordinator, one method each."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.scenarios.transactions.talk import Partition, Producer, Talk, error_name


class CoordinatorTalk(Talk):
    """The requests that a producer and an admin client send to the coordinator."""

    def age(self, name: str, epoch: int) -> None:
        self.quietly(lambda: self._wire.age(self.name(name), epoch, lambda: self.init(name)))

    def init(
        self,
        name: str | None = "t",
        *,
        timeout_ms: int = 60_000,
        expected: Producer = (-1, -1),
        version: int = 5,
    ) -> Producer:
        transactional_id = None if name is None else self.name(name)
        answer = self.request(InitProducerIdRequest(transactional_id, timeout_ms, *expected), version)
        going_on = "" if expected == (-1, -1) else f" as {self.pid(expected[0])}/{expected[1]}"
        outcome = f"{error_name(answer.error_code)} {self.pid(answer.producer_id)}/{answer.producer_epoch}"
        self.say(f"InitProducerId v{version} {name} {timeout_ms} ms{going_on} -> {outcome}")
        return answer.producer_id, answer.producer_epoch

    def await_producer_ids(self) -> None:
        """Wait until the broker has its first block of producer ids."""
        for _ in range(500):
            if not self.request(InitProducerIdRequest(None, 60_000), 5).error_code:
                return
            self._wire.wait(20)
        raise AssertionError("no producer ids")

    def add(self, producer: Producer, *partitions: Partition, name: str = "t", version: int = 3) -> list[str]:
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name(name),
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(t, ps) for t, ps in self._grouped(partitions)],
        )
        answer = self.request(message, version)
        outcome = sorted(
            f"{topic.name}-{one.partition_index} {error_name(one.partition_error_code)}"
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        )
        self.say(f"AddPartitionsToTxn v{version} {name} {self._who(producer)} -> {', '.join(outcome)}")
        return outcome

    def add_batched(self, *transactions: tuple[str, Producer, bool, list[Partition]], version: int = 5) -> None:
        message = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    self.name(name),
                    *producer,
                    verify_only,
                    [AddPartitionsToTxnTopic(t, ps) for t, ps in self._grouped(partitions)],
                )
                for name, producer, verify_only, partitions in transactions
            ]
        )
        answer = self.request(message, version)
        outcome = sorted(
            f"{result.transactional_id} {topic.name}-{one.partition_index} {error_name(one.partition_error_code)}"
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for one in topic.results_by_partition
        )
        asked = ", ".join(
            f"{name} {self._who(producer)}{' verify' if verify else ''}" for name, producer, verify, _ in transactions
        )
        self.say(f"AddPartitionsToTxn v{version} [{asked}] -> {error_name(answer.error_code)} {', '.join(outcome)}")

    def add_offsets(self, producer: Producer, group: str, *, name: str = "t", version: int = 3) -> None:
        answer = self.request(AddOffsetsToTxnRequest(self.name(name), *producer, self.name(group)), version)
        self.say(
            f"AddOffsetsToTxn v{version} {name} {self._who(producer)} {group or repr(group)}"
            f" -> {error_name(answer.error_code)}"
        )

    def end(self, producer: Producer, commit: bool = True, *, name: str = "t", version: int = 5) -> Producer:
        answer = self.request(EndTxnRequest(self.name(name), *producer, commit), version)
        outcome = error_name(answer.error_code)
        if version >= 5:
            outcome += f" {self.pid(answer.producer_id)}/{answer.producer_epoch}"
        self.say(f"EndTxn v{version} {name} {self._who(producer)} {'commit' if commit else 'abort'} -> {outcome}")
        return answer.producer_id, answer.producer_epoch

    def settle(self, name: str = "t") -> None:
        """Wait until the markers of an ended transaction are written."""
        message = DescribeTransactionsRequest([self.name(name)])
        while self.request(message, 0).transaction_states[0].transaction_state.startswith("Prepare"):
            self._wire.wait(10)

    def describe(self, *names: str) -> None:
        answer = self.request(DescribeTransactionsRequest([self.name(name) for name in names]), 0)
        for one in answer.transaction_states:
            if one.error_code:
                self.say(f"DescribeTransactions {one.transactional_id or repr('')} -> {error_name(one.error_code)}")
                continue
            started = "started" if one.transaction_start_time_ms > 0 else f"start {one.transaction_start_time_ms}"
            # Which partition holds the group's offsets depends on how many there are.
            topics = ",".join(
                f"{t.topic}-{'some' if t.topic.startswith('__') else sorted(t.partitions)}"
                for t in sorted(one.topics, key=lambda t: t.topic)
            )
            self.say(
                f"DescribeTransactions {one.transactional_id} -> {one.transaction_state} "
                f"{one.transaction_timeout_ms} ms {started} {self.pid(one.producer_id)}/{one.producer_epoch} "
                f"{topics or '-'}"
            )

    def list(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
        *,
        version: int = 2,
    ) -> None:
        message = ListTransactionsRequest(list(states), list(producer_ids), duration_ms, pattern)
        answer = self.request(message, version)
        found = sorted(
            f"{one.transactional_id} {self.pid(one.producer_id)} {one.transaction_state}"
            for one in answer.transaction_states
            if one.transactional_id.startswith(self._prefix)
        )
        filters = f"{list(states)} {[self.pid(p) for p in producer_ids]} {duration_ms} {pattern}"
        unknown = f" unknown {sorted(answer.unknown_state_filters)}" if answer.unknown_state_filters else ""
        self.say(
            f"ListTransactions v{version} {filters} -> {error_name(answer.error_code)}{unknown} {', '.join(found)}"
        )
