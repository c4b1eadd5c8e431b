"""Directories for nodes of a cluster."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.testing.formatting import cluster_id_in, format_directories, new_cluster_id


def test_each_directory_of_a_node_is_formatted_once(tmp_path: Path) -> None:
    config = {"node.id": "2", "process.roles": "broker", "log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    cluster_id = new_cluster_id()
    format_directories(config, cluster_id)
    first = {name: (tmp_path / name / "meta.properties").read_text() for name in "ab"}
    for text in first.values():
        assert f"cluster.id={cluster_id}" in text
        assert "node.id=2" in text
    assert first["a"] != first["b"]  # each has an id of its own
    format_directories(config, cluster_id)
    assert {name: (tmp_path / name / "meta.properties").read_text() for name in "ab"} == first
    assert cluster_id_in(tmp_path) == cluster_id
    assert cluster_id_in(tmp_path / "nowhere") is None
