"""`share-groups` as JSON."""

import pytest

from interop.tools.share_members import join_share_group, leave_share_group
from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked
from tests.tools.test_get_offsets import send


def test_share_groups_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a", 1)
        send(broker, "a", 3)
        join_share_group(broker.bootstrap_servers, "g", "m" * 22, ["a"])
        asked = Asked(broker, capsys)
        of_group = ("share-groups", "--group", "g")
        assert asked("share-groups", "--list") == [{"group_id": "g", "state": "Stable"}]
        (member,) = asked(*of_group, "--describe", "--members")
        assert (member["consumer_id"], member["assignment"]) == ("m" * 22, [{"topic": "a", "partition": 0}])
        leave_share_group(broker.bootstrap_servers, "g", "m" * 22)
        (state,) = asked(*of_group, "--describe", "--state")
        assert (state["state"], state["member_count"]) == ("Empty", 0)
        (reset,) = asked(*of_group, "--reset-offsets", "--to-latest", "--topic", "a", "--execute")
        assert reset == {"group_id": "g", "topic": "a", "partition": 0, "new_offset": 3}
        (offsets,) = asked(*of_group, "--describe")
        assert (offsets["start_offset"], offsets["lag"]) == (3, 0)
        assert asked(*of_group, "--delete-offsets", "--topic", "a") == [{"topic": "a", "error": None}]
        assert asked(*of_group, "--delete") == [{"group_id": "g", "deleted": True}]
