from pykafka_broker.coordinators.transactions.coordinator import TransactionFilters, matching_transactions
from pykafka_broker.coordinators.transactions.transaction import TransactionMetadata, TransactionState

ONE = TransactionMetadata(1, 0, 60_000, TransactionState.ONGOING, 5_000, start_ms=5_000)
TWO = TransactionMetadata(2, 0, 60_000, TransactionState.COMPLETE_COMMIT, 9_000, start_ms=8_000)
IDLE = TransactionMetadata(3, 0, 60_000, TransactionState.EMPTY, 9_000)
ALL = [("one", ONE), ("two", TWO), ("idle", IDLE)]


def names(filters: TransactionFilters, now: int = 10_000) -> list[str]:
    return [name for name, _ in matching_transactions(ALL, filters, now)]


def test_no_filter_lists_all() -> None:
    assert names(TransactionFilters()) == ["one", "two", "idle"]


def test_the_dead_are_not_listed() -> None:
    dead = ONE._replace(state=TransactionState.DEAD)
    assert list(matching_transactions([("dead", dead)], TransactionFilters(), 0)) == []


def test_states_and_producer_ids() -> None:
    assert names(TransactionFilters(state_titles=["Ongoing", "Empty"])) == ["one", "idle"]
    assert names(TransactionFilters(producer_ids=[2, 9])) == ["two"]
    assert names(TransactionFilters(state_titles=["Ongoing"], producer_ids=[2])) == []


def test_an_unknown_state_matches_nothing_and_is_named() -> None:
    filters = TransactionFilters(state_titles=["Ongoing", "ongoing", "Gone"])
    assert names(filters) == ["one"]
    assert filters.unknown_titles() == ["ongoing", "Gone"]
    assert names(TransactionFilters(state_titles=["Gone"])) == []


def test_a_duration_is_exceeded_not_met() -> None:
    assert names(TransactionFilters(duration_ms=1_999)) == ["one", "two", "idle"]
    assert names(TransactionFilters(duration_ms=2_000)) == ["one", "idle"]
    assert names(TransactionFilters(duration_ms=0), now=5_000) == ["idle"]
    assert names(TransactionFilters(duration_ms=0), now=5_001) == ["one", "idle"]


def test_a_pattern_sees_the_transactional_id() -> None:
    assert names(TransactionFilters(matches=lambda name: "o" in name)) == ["one", "two"]
