"""Options of `format`, its users and voters, and directories that are formatted whole or not at all;
interop/test_format.py compares all sentences with kafka-storage's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.cluster.bootstrap import bootstrap_records
from pykafka_broker.cluster.features import BOOTSTRAP_LEVELS, METADATA_VERSION, SUPPORTED
from pykafka_broker.cluster.formatting import (
    FormatError,
    FormatRequest,
    KnownLevels,
    StorageFormatter,
    StorageNode,
    feature_level,
    info,
    initial_voters,
    properties_of,
    scram_user,
    voter,
    voters_record,
)
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.peers import Address
from pykafka_broker.protocol.stored.voters_record import VotersRecord

FS = OsFileSystem()
NOW = 1_795_000_000_000
USER = "SCRAM-SHA-256=[name=alice,password=hunter2]"


def _levels_up_to(metadata_version: int) -> KnownLevels:
    return KnownLevels(SUPPORTED | {METADATA_VERSION: (7, metadata_version)})


def test_a_release_is_its_last_metadata_version() -> None:
    levels = _levels_up_to(30)
    assert [levels.metadata_version(text) for text in ("3.7-IV1", "3.7", "3.7.2", "4.3.1")] == [16, 19, 19, 30]
    for text in ("3.2", "4.4", "4.4-IV0", "4", "3.7-IV9", ""):
        with pytest.raises(FormatError, match=r"Unknown metadata\.version"):
            levels.metadata_version(text)
    assert levels.metadata_version("4.4-IV0", unstable=True) == 31
    assert (levels.name_of_metadata_version(31), levels.name_of_metadata_version(32)) == ("4.4-IV0", None)
    assert _levels_up_to(33).metadata_version("4.4") == 33


def test_each_release_has_its_own_features() -> None:
    assert KnownLevels().bootstrap(FormatRequest("c")) == BOOTSTRAP_LEVELS
    assert KnownLevels().bootstrap(FormatRequest("c", release_version=7)) == {"metadata.version": 7}
    assert KnownLevels().bootstrap(FormatRequest("c", release_version=24)) == {
        "metadata.version": 24,
        "group.version": 1,
        "transaction.version": 2,
    }
    for level in range(7, 31):
        assert (
            _levels_up_to(30).bootstrap(FormatRequest("c", features={"metadata.version": level}))[METADATA_VERSION]
            == level
        )


def test_a_feature_may_have_another_level() -> None:
    levels = KnownLevels().bootstrap(FormatRequest("c", features={"group.version": 0, "transaction.version": 1}))
    assert levels == {**{name: level for name, level in BOOTSTRAP_LEVELS.items() if name != "group.version"}} | {
        "transaction.version": 1
    }


@pytest.mark.parametrize("text", ["group.version", "group.version=", "group.version=one", "group.version=1.0"])
def test_what_is_no_feature_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="Can't parse feature=level string"):
        feature_level(text)


def test_dynamic_voters_need_kraft_version_1() -> None:
    zero, one = FormatRequest("c", features={"kraft.version": 0}), FormatRequest("c", features={"kraft.version": 1})
    KnownLevels().check_kraft_version(zero, False)
    KnownLevels().check_kraft_version(one, True)
    KnownLevels().check_kraft_version(FormatRequest("c"), True)
    for request, dynamic in ((zero, True), (one, False)):
        with pytest.raises(FormatError, match=r"Cannot set kraft\.version"):
            KnownLevels().check_kraft_version(request, dynamic)


def test_initial_controllers_have_ids_addresses_and_directories() -> None:
    text = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg, 2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A,"
    assert [voter[:3] for voter in initial_voters(text)] == [(1, "127.0.0.1", 9093), (2, "::1", 9094)]


@pytest.mark.parametrize("text", ["", "1", "1@h", "-1@h:1:x", "1@[::1]9:1:x", "1@h:65536:MvDxzVmcRsaTz33bUuRU6A"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        initial_voters(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@h:1:x", "Invalid @ at beginning of dynamic voter string."),
        ("1@", "No hostname found after node id."),
        ("1@[::1]9:1:x", "Port section must start with a colon."),
    ],
)
def test_voters_are_refused_in_kafkas_words(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        initial_voters(text)


def test_levels_of_features_are_numbers_of_16_bits_with_blanks_around() -> None:
    levels = {"kraft.version = 1": 1, "a=+2": 2, "a=00000017": 17, "a=32767": 32767, "a=-1": -1}
    assert [feature_level(text)[1] for text in levels] == [*levels.values()]
    for level in ("40000", "x", "1.0", ""):
        with pytest.raises(FormatError, match=rf"a={level}: unable to parse {level} as a short"):
            feature_level(f"a={level}")


@pytest.mark.parametrize(
    ("text", "says"),
    [("3000000000@h:1:x", "Failed to parse node id"), ("1@h:3000000000:x", "Failed to parse port")],
)
def test_voters_have_numbers_of_32_bits(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        initial_voters(text)


def test_base64_of_a_user_needs_no_padding() -> None:
    texts = [f"SCRAM-SHA-256=[name=a,salt={salt},saltedpassword=YWJj]" for salt in ("YWJjZA==", "YWJjZA")]
    padded, bare = (scram_user(text, bytes) for text in texts)
    assert (bare.salt, bare.stored_key) == (padded.salt, padded.stored_key)
    for wrong in ("YWJjZA=", "Y", "YW Jj"):
        with pytest.raises(FormatError, match=f"Failed to decode given salt: {wrong}"):
            scram_user(f"SCRAM-SHA-256=[name=a,salt={wrong},iterations=1]", bytes)


def test_iterations_are_a_number_of_32_bits() -> None:
    with pytest.raises(FormatError, match="Failed to parse iterations count: 3000000000"):
        scram_user("SCRAM-SHA-256=[name=a,password=b,iterations=3000000000]", bytes)


def test_the_keys_are_those_of_rfc_5802() -> None:
    user = scram_user(" SCRAM-SHA-512=[name=alice,password=alice-secret,iterations=5000] ", lambda: b"the salt")
    salted = hashlib.pbkdf2_hmac("sha512", b"alice-secret", b"the salt", 5000)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    assert (user.name, user.mechanism, user.salt, user.iterations) == ("alice", 2, b"the salt", 5000)
    assert user.stored_key == hashlib.sha512(client_key).digest()
    assert user.server_key == hmac.digest(salted, b"Server Key", "sha512")


def test_a_salted_password_stands_for_the_password() -> None:
    salt = base64.b64encode(b"the salt").decode()
    salted = base64.b64encode(hashlib.pbkdf2_hmac("sha256", b"secret", b"the salt", 4096)).decode()
    one = scram_user(f'SCRAM-SHA-256=[name=a,salt="{salt}",saltedpassword="{salted}"]', bytes)
    other = scram_user(f'SCRAM-SHA-256=[name=a,salt="{salt}",password="secret"]', bytes)
    assert one == other


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-1=[name=a,password=hunter2]",
        "SCRAM-SHA-256=[name=a,password=hunter2",
        "SCRAM-SHA-256=name=a,password=hunter2",
        "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]",
        "SCRAM-SHA-256=[name=a,password=hunter2,salt=!]",
        "SCRAM-SHA-256=[name=a,password=hunter2,other=1]",
        "SCRAM-SHA-256=[name=a,saltedpassword=hunter2!,salt=MWx2]",
        "SCRAM-SHA-256=[name=a,saltedpassword=hunter2]",
        "SCRAM-SHA-256=[name=a,password=]",
    ],
)
def test_what_is_wrong_with_a_user_is_told_without_the_password(text: str) -> None:
    with pytest.raises(FormatError) as raised:
        scram_user(text, bytes)
    assert "hunter2" not in str(raised.value)


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


class Case:
    """A case of formatting with two directories of one node."""

    def __init__(self, directory: Path, new_uuid: Callable[[], bytes]) -> None:
        self.paths = [str(directory / "a"), str(directory / "b")]
        self.node = StorageNode(1, self.paths, self.paths[0], True, False, ("CONTROLLER", "localhost", 9093))
        self.new_uuid = new_uuid

    def format(self, request: FormatRequest) -> list[str]:
        formatter = StorageFormatter(FS, self.node, request, now=NOW, new_uuid=self.new_uuid, new_salt=lambda: b"salt")
        return list(formatter.run())


@pytest.fixture
def case(tmp_path: Path) -> Case:
    ids = iter(range(1 << 64, 1 << 65))
    return Case(tmp_path, lambda: next(ids).to_bytes(16, "big"))


def test_both_have_the_cluster_and_the_first_records(case: Case) -> None:
    lines = case.format(FormatRequest("the-cluster", [USER], standalone=True))
    assert [line.split(" with ")[0] for line in lines[1:]] == [
        f"Formatting dynamic metadata voter directory {case.paths[0]}",
        f"Formatting data directory {case.paths[1]}",
    ]
    assert "name='alice'" in lines[0]
    assert "hunter2" not in lines[0]
    found = [properties_of(FS, path) or {} for path in case.paths]
    assert [each["cluster.id"] for each in found] == ["the-cluster"] * 2
    assert len({each["directory.id"] for each in found}) == 2
    for path in case.paths:
        assert [each.message.name for each in bootstrap_records(FS, path, NOW, BrokerConfig())][-1] == "alice"
    assert info(FS, case.node)[1]


def test_the_refusal_of_another_clusters_directory_says_what_to_do(case: Case) -> None:
    case.format(FormatRequest("mine", no_initial_controllers=True))
    with pytest.raises(FormatError, match=r"Expected yours, but read mine\n.*-t mine -g leaves"):
        case.format(FormatRequest("yours", no_initial_controllers=True, ignore_formatted=True))
    told = case.format(FormatRequest("mine", no_initial_controllers=True, ignore_formatted=True))
    assert told == ["All of the log directories are already formatted."]


@pytest.mark.parametrize("is_controller", [True, False])
def test_since_4_4_the_first_snapshot_of_a_controller_has_the_first_records(case: Case, is_controller: bool) -> None:
    case.node = case.node._replace(begins_with_a_snapshot=True, is_controller=is_controller)
    case.format(FormatRequest("the-cluster", [USER], no_initial_controllers=True))
    files = [str(path.relative_to(case.paths[0])) for path in Path(case.paths[0]).rglob("*") if path.is_file()]
    first = ["__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"] if is_controller else []
    assert sorted(files) == [*first, "meta.properties"]
    assert [path.name for path in Path(case.paths[1]).iterdir()] == ["meta.properties"]
    names = [each.message.name for each in bootstrap_records(FS, case.paths[0], NOW, BrokerConfig())]
    assert (names[-1] == "alice") is is_controller


def test_nothing_is_written_when_a_user_is_wrong(case: Case) -> None:
    with pytest.raises(FormatError, match="bogus"):
        case.format(FormatRequest("c", ["bogus"], no_initial_controllers=True))
    assert not any(map(FS.exists, case.paths))


def test_a_directory_that_a_crash_left_is_formatted_again(case: Case) -> None:
    request = FormatRequest("c", no_initial_controllers=True)
    case.format(request)
    FS.remove(f"{case.paths[1]}/meta.properties")
    with pytest.raises(FormatError, match="is already formatted"):
        case.format(request)
    lines = case.format(request._replace(ignore_formatted=True))
    assert len(lines) == 2
    assert case.format(request._replace(ignore_formatted=True)) == ["All of the log directories are already formatted."]


def test_damaged_properties_are_told(case: Case) -> None:
    case.format(FormatRequest("c", no_initial_controllers=True))
    Path(case.paths[0], "meta.properties").write_bytes(b"\xff\xfe")
    lines, well = info(FS, case.node)
    assert not well
    assert f"  {case.paths[0]}/meta.properties can't be read: it is no text" in lines
