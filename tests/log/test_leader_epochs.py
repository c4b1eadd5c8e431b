"""Leader epochs: entries rise, both ends can be cut, and a file that makes no sense is not believed."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.leader_epochs import LeaderEpochs

FS = OsFileSystem()


def epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(FS, f"{tmp_path}/epochs", list(entries))


def test_epochs_are_assigned_in_order(tmp_path: Path) -> None:
    known = epochs(tmp_path)
    assert known.latest == -1
    assert known.assign(0, 0)
    assert not known.assign(0, 5)
    assert known.assign(3, 10)
    assert known.assign(4, 10)  # nothing was written in epoch 3
    assert known.entries == [(0, 0), (4, 10)]
    known.write()
    assert (tmp_path / "epochs").read_bytes() == b"0\n2\n0 0\n4 10\n"
    assert LeaderEpochs.load(FS, f"{tmp_path}/epochs").entries == known.entries


def test_end_offsets_of_epochs(tmp_path: Path) -> None:
    known = epochs(tmp_path, (2, 10), (4, 20), (7, 50))
    expected = {-1: (-1, -1), 0: (0, 10), 1: (1, 10), 2: (2, 20), 3: (2, 20), 4: (4, 50), 6: (4, 50), 7: (7, 99)}
    assert {epoch: known.end_offset_for(epoch, 99) for epoch in expected} == expected
    assert known.end_offset_for(8, 99) == (-1, -1)
    assert epochs(tmp_path).end_offset_for(0, 99) == (-1, -1)
    assert [known.epoch_at(offset) for offset in (5, 10, 19, 20, 70)] == [-1, 2, 2, 4, 7]


def test_epochs_are_cut_at_both_ends(tmp_path: Path) -> None:
    known = epochs(tmp_path, (2, 10), (4, 20), (7, 50))
    assert known.truncate_from_start(30)
    assert known.entries == [(4, 30), (7, 50)]
    assert not known.truncate_from_start(30)
    assert known.truncate_from_start(31)
    assert known.entries == [(4, 31), (7, 50)], "an older epoch ends where the log starts"
    assert known.truncate_from_end(50)
    assert known.entries == [(4, 31)]
    assert not known.truncate_from_end(50)


def test_a_file_torn_in_its_last_number_is_no_checkpoint(tmp_path: Path) -> None:
    path = f"{tmp_path}/leader-epoch-checkpoint"
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n1 3")  # of "1 33\n"
    assert LeaderEpochs.load(OsFileSystem(), path).entries == []


def test_epochs_that_do_not_rise_are_not_believed(tmp_path: Path) -> None:
    path = f"{tmp_path}/leader-epoch-checkpoint"
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n2\n1 33\n2 3\n")
    assert LeaderEpochs.load(OsFileSystem(), path).entries == []
