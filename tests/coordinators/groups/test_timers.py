"""Deadlines: set, moved, cancelled, taken out in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.coordinators.groups.timers import TimerKey, Timers

KEYS = [TimerKey("classic-session", "g", str(number)) for number in range(4)] + [TimerKey("consumer-join", "h", "m")]
STEPS = st.one_of(
    st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 50)),
    st.tuples(st.just("cancel"), st.sampled_from(KEYS), st.just(0)),
    st.tuples(st.just("pop"), st.just(KEYS[0]), st.integers(0, 50)),
    st.tuples(st.just("cancel-group"), st.just(KEYS[0]), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_behaves_like_a_dict_that_is_searched_for_its_least_value(steps: list[tuple[str, TimerKey, int]]) -> None:
    timers, model = Timers(), dict[TimerKey, int]()
    for action, key, time in steps:
        if action == "set":
            timers.set(key, time)
            model[key] = time
        elif action == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        elif action == "cancel-group":
            timers.cancel_group("g", "classic")
            model = {key: time for key, time in model.items() if key.group_id != "g"}
        else:
            popped = timers.pop(time)
            least = min(model.values(), default=None)
            if least is None or least > time:
                assert popped is None
            else:
                assert popped is not None
                assert model.pop(popped) == least
        assert timers.next_deadline() == min(model.values(), default=None)
        assert len(timers) == len(model)


def test_a_session_that_is_prolonged_leaves_one_heap_entry() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.set(KEYS[0], now + 30_000)
    assert len(timers._heap) == 1
    assert timers.next_deadline() == 39_999
