import pytest

from pykafka_broker.coordinators.transactions.transaction import (
    PREVIOUS,
    STATE_BY_TITLE,
    InvalidTransition,
    TransactionMetadata,
    TransactionState,
)

S = TransactionState


def test_names_are_those_of_kafka() -> None:
    assert {state.title: int(state) for state in S} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }
    assert STATE_BY_TITLE["CompleteAbort"] is S.COMPLETE_ABORT


def test_every_state_says_where_it_comes_from() -> None:
    assert PREVIOUS.keys() == set(S)
    assert PREVIOUS[S.COMPLETE_COMMIT] == {S.PREPARE_COMMIT}
    assert PREVIOUS[S.COMPLETE_ABORT] == {S.PREPARE_ABORT}
    assert PREVIOUS[S.PREPARE_COMMIT] == {S.ONGOING}


def test_only_resting_states_have_no_transaction_open() -> None:
    assert {state for state in S if state.resting} == {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
    assert {state for state in S if state.preparing} == {S.PREPARE_COMMIT, S.PREPARE_ABORT}


def test_a_step_that_is_not_in_the_table_raises_with_both_names() -> None:
    created = TransactionMetadata.created(1, 1000, 0)
    with pytest.raises(InvalidTransition, match="EMPTY to PREPARE_COMMIT"):
        created.prepared(True, 0, -1, 0)
    with pytest.raises(InvalidTransition, match="EMPTY to COMPLETE_ABORT"):
        created.completed(0)
