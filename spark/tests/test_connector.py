"""The connector's jars: given, found, and missing in words."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pyspark import __version__

from pipeline import connector, jars
from pipeline.errors import SettingsError
from pipeline.java import CHECKOUT


def test_jars_that_are_given(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.touch()
    elsewhere = ["hdfs:///b.jar", "local:/opt/c.jar", "file:/opt/d.jar"]
    assert connector.connector_jars(", ".join([str(jar), *elsewhere])) == [str(jar), *elsewhere]
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


@pytest.mark.parametrize("version", ["3.5.0", "3.5.9", "4.0.0", "4.0.5", "4.2.0", "4.2.1", "4.3.0", "4.1.4", "4.4.0"])
def test_every_version_that_may_be_installed_has_a_connector(version: str) -> None:
    """`pyproject.toml` says which versions may be."""
    allowed = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    (wanted,) = (Requirement(text) for text in allowed if text.startswith("pyspark"))
    if not wanted.specifier.contains(version):
        with pytest.raises(jars.JarsError, match=f"pyspark {version} is of none of the lines 3.5, 4.0, 4.2, 4.3"):
            jars.connector_coordinates(version)
        return
    names = [coordinate.split(":")[1].split("_")[0] for coordinate in jars.connector_coordinates(version)]
    assert names == ["spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2"]


def test_the_version_that_is_tested_by_default_is_the_one_that_jars_are_fetched_for() -> None:
    tested = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["interop"]
    assert f"pyspark=={jars.SPARK_VERSION}" in tested


def test_the_installed_version_has_its_own() -> None:
    found = [Path(jar).name for jar in connector.connector_jars()]
    assert len(found) == 4
    assert any(name.startswith("kafka-clients-") for name in found)


@pytest.mark.parametrize(
    ("table_format", "version", "runtime"),
    [
        ("delta", "4.2.1", "io.delta:delta-spark_4.2_2.13:4.4.0"),
        ("iceberg", "4.0.5", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"),
        ("iceberg", "3.5.9", "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0"),
    ],
)
def test_jars_of_a_format_of_tables(
    table_format: str, version: str, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A format has jars for the PySpark that it is made for; outside of a checkout, words say how to give them."""
    asked: list[str] = []

    def fetch(name: str, coordinates: list[str], *, transitive: bool) -> Path:
        asked.extend([name, coordinates[0], str(transitive)])
        (tmp_path / "runtime.jar").touch()
        return tmp_path

    monkeypatch.setattr(jars, "fetched", fetch)
    monkeypatch.setattr(connector, "PYSPARK_VERSION", version)
    assert connector.format_jars(table_format) == [f"{tmp_path}/runtime.jar"]
    assert asked == ["-".join(runtime.split(":")[1:]), runtime, "False"]
    monkeypatch.setattr(connector, "CHECKOUT", tmp_path)
    with pytest.raises(SettingsError, match=f"table_format {table_format} needs its jars.* --packages {runtime}"):
        connector.format_jars(table_format)
