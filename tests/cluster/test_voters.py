"""A voter in the log is what its id, its directory and its listeners say."""

from pykafka_broker.cluster.voters import voter, voters_record
from pykafka_broker.peers import Address
from pykafka_broker.protocol.stored.voters_record import VotersRecord


def test_a_voter_is_reached_on_each_of_its_listeners() -> None:
    reached = [Address("a", 1, "CONTROLLER"), Address("b", 2, "INSIDE")]
    [found] = VotersRecord.decode(voters_record([voter(101, b"d" * 16, reached)]), 0).voters
    assert (found.voter_id, found.voter_directory_id) == (101, b"d" * 16)
    assert [(each.name, each.host, each.port) for each in found.endpoints] == [
        ("CONTROLLER", "a", 1),
        ("INSIDE", "b", 2),
    ]
    feature = found.kraft_version_feature
    assert (feature.min_supported_version, feature.max_supported_version) == (0, 1)
