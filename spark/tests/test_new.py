"""A new project: what is written, what is refused, and that its own tests pass without anything of this checkout."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from pipeline.cli import main
from pipeline.connector import connector_jars

TEMPLATE = Path(__file__).resolve().parents[1] / "template"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert main(["new", "--output", str(tmp_path / "shop")]) == 0
    return tmp_path / "shop"


def test_what_is_written(project: Path) -> None:
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "shop"
    assert (
        tomllib.loads((project / "pipeline.toml").read_text())["flows"]["orders"]["transform"]
        == "shop.steps:with_prices"
    )
    assert (project / "spark" / "shop" / "steps.py").is_file()
    assert (project / "tests" / "test_shop.py").is_file()
    own = [path for path in project.rglob("*") if path.is_file() and path.parent.name != "pipeline"]
    assert not [path for path in own if re.search(r"\bNAME\b", str(path) + path.read_text())]


def test_the_versions_are_those_of_the_pipeline(project: Path) -> None:
    """PySpark and the connector stand in five places of the template."""
    from pipeline.jars import SPARK_VERSION, connector_coordinates

    texts = {path.name: path.read_text() for path in project.iterdir() if path.is_file()}
    assert f'"pyspark=={SPARK_VERSION}"' in texts["pyproject.toml"]
    assert connector_coordinates(SPARK_VERSION)[0] in texts["README.md"]
    application = yaml.safe_load((project / "kubernetes" / "shop.yaml").read_text())
    assert application["spec"]["sparkVersion"] == SPARK_VERSION


def test_the_application_for_kubernetes(project: Path) -> None:
    """The form that the operator's definition asks for, and paths that the image has."""
    application = yaml.safe_load((project / "kubernetes" / "shop.yaml").read_text())
    assert (application["apiVersion"], application["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    spec = application["spec"]
    assert {"type", "mode", "image", "sparkVersion", "mainApplicationFile", "driver", "executor"} <= set(spec)
    image = (project / "Containerfile").read_text()
    assert "WORKDIR /opt/shop" in image
    assert all(isinstance(argument, str) for argument in spec["arguments"])
    for path in [spec["mainApplicationFile"], *spec["deps"]["jars"]]:
        assert path.startswith("local:///opt/shop/")
    file = project / spec["mainApplicationFile"].removeprefix("local:///opt/shop/")
    assert file.is_file()
    secret = spec["driver"]["envSecretKeyRefs"]
    assert set(re.findall(r"\$\{(\w+)\}", (project / "pipeline.toml").read_text())) == set(secret)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("my-shop", "has to be a package's name"),
        ("pipeline", "has to be a package's name"),
        ("", "has to be a package"),
    ],
)
def test_what_is_refused(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "--output", name]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_that_is_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "--output", str(project)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_place_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["new", "--output", str(tmp_path / "file" / "shop")]) == 2
    assert "file/shop can't be written: Not a directory" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_its_tests_pass(project: Path) -> None:
    """In a process of their own, and with the project's copy of the pipeline."""
    paths = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not (Path(path) / "pipeline").exists()
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    environment["SPARK_KAFKA_JARS"] = str(Path(connector_jars()[0]).parent)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=project, env=environment,
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    assert "5 passed" in done.stdout
