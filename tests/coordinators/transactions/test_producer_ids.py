from pykafka_broker.coordinators.transactions import ProducerIds


def test_a_block_is_used_up_before_the_next_is_asked_for() -> None:
    blocks = iter([(0, 2), (5000, 1), (6000, 1000)])
    asked: list[tuple[int, int]] = []

    def allocate(now: int) -> tuple[int, int]:
        asked.append(next(blocks))
        return asked[-1]

    producer_ids = ProducerIds(allocate)
    assert asked == []
    assert [producer_ids(77) for _ in range(5)] == [0, 1, 5000, 6000, 6001]
    assert asked == [(0, 2), (5000, 1), (6000, 1000)]
