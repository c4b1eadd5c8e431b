"""The connector's jars: given, found, and missing in words."""

from pathlib import Path

import pytest
from pyspark import __version__

from pipeline import connector, jars
from pipeline.errors import SettingsError


def test_jars_that_are_given(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.touch()
    assert connector.connector_jars(f"{jar}, hdfs:///b.jar") == [str(jar), "hdfs:///b.jar"]
    with pytest.raises(SettingsError, match=rf"there is no {tmp_path}/none.jar.* Needed are spark-sql-kafka-0-10_2.1"):
        connector.connector_jars(f"{jar},{tmp_path}/none.jar")


def test_a_folder_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connector.JARS_VARIABLE, str(tmp_path))
    with pytest.raises(
        SettingsError, match=rf"pyspark {__version__} has no Kafka connector .* has no connector for this"
    ):
        connector.connector_jars()


def test_outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(connector.JARS_VARIABLE, raising=False)
    monkeypatch.setattr(connector, "CHECKOUT", tmp_path)
    with pytest.raises(SettingsError, match=r"SPARK_KAFKA_JARS is not set.* spark-submit --packages"):
        connector.connector_jars()


def test_a_version_that_nobody_tried() -> None:
    with pytest.raises(jars.JarsError, match=r"pyspark 4.1.0 is none of 3.5.7, 4.0.0, 4.2.0, 4.3.0"):
        jars.spark_connector_jars("4.1.0")


def test_four_jars_each() -> None:
    for coordinates in jars.SPARK_CONNECTORS.values():
        names = [coordinate.split(":")[1].split("_")[0] for coordinate in coordinates]
        assert names == ["spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2"]


def test_the_installed_version_has_its_own() -> None:
    found = [Path(jar).name for jar in connector.connector_jars()]
    assert len(found) == 4
    assert any(name.startswith("kafka-clients-") for name in found)
