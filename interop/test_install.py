"""The package as pip installs it from a clone, by hand and in the action for GitHub; pip fetches what that takes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kafka import KafkaConsumer, KafkaProducer

import bare_root
import dry_run
from interop import ROOT
from pykafka_broker.testing import RemoteBroker

PACKED = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
PACKAGE = "pykafka_broker"
UNCOMPILED = {"PIP_COMPILE": "0"}  # what is never imported needs no bytecode


def clone(path: Path) -> Path:
    """Copy the files of the repository that an installation reads."""
    shutil.copytree(ROOT / PACKAGE, path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PACKED:
        shutil.copy(ROOT / name, path)
    return path


def files(path: Path) -> set[str]:
    return {each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()}


def test_a_clone_is_installed_as_it_is_and_left_as_it_was(tmp_path: Path) -> None:
    """A clone is installed without its old folder build/, which holds deleted modules, and the clone is unchanged."""
    source, site = clone(tmp_path / "clone"), tmp_path / "site"
    stale = source / "build" / "lib" / PACKAGE / "stale_module.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    before = files(source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-compile", "--target", site, source], check=True, timeout=240)
    assert files(source) == before
    assert files(site / PACKAGE) == files(source / PACKAGE)


def test_what_the_readme_tells_to_type_works(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source, shop, home = clone(tmp_path / "a clone"), tmp_path / "shop", tmp_path / "home"
    shop.mkdir()
    home.mkdir()
    kept = {
        name: os.environ[name] for name in ("PATH", "TMPDIR", "PIP_CACHE_DIR", "PIP_INDEX_URL") if name in os.environ
    }
    environment = kept | {"HOME": str(home), **UNCOMPILED}

    start = re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    assert start.endswith("\npykafka-broker --ephemeral\n")
    command = start.replace("pykafka-broker --ephemeral", "exec pykafka-broker --ephemeral --listen 0")
    with subprocess.Popen(
        ["bash", "-ec", command], cwd=source, env=environment, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        lines = iter(broker.stdout.readline, "")
        assert next((line for line in lines if line.startswith("listening on ")), None)
        broker.send_signal(signal.SIGINT)
        assert broker.wait(30) == 0

    example = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    (shop / "test_orders.py").write_text(example)
    shown = re.findall(r"^```console\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    typed = "\n".join(re.findall(r"^\$ (.*)", shown, re.MULTILINE))
    command = typed.replace("/home/me/pykafka-broker", shlex.quote(str(source)))
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=shop, check=False, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert "1 passed" in ran.stdout, ran.stdout


def test_the_action_starts_a_broker_of_its_own_commit(tmp_path: Path) -> None:
    folder = ROOT / "packaging" / "github-action"
    action = yaml.safe_load((folder / "action.yml").read_text(encoding="utf-8"))
    (step,) = action["runs"]["steps"]
    outputs = tmp_path / "outputs"
    environment = os.environ | {
        **UNCOMPILED,
        "VERSION": action["inputs"]["version"]["default"],
        "PORT": "0",
        "OPTIONS": "--override num.partitions=3",
        "GITHUB_ACTION_PATH": str(folder),
        "GITHUB_OUTPUT": str(outputs),
        "TMPDIR": str(tmp_path),
    }
    subprocess.run(["bash", "-c", step["run"]], env=environment, check=True, timeout=240)
    found = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert found.keys() == action["outputs"].keys()
    try:
        address = found["bootstrap-servers"]
        producer = KafkaProducer(bootstrap_servers=address)
        producer.send("orders", b"apples").get(60)
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=60_000
        )
        assert next(consumer).value == b"apples"
        consumer.close()
        assert [each.value for each in RemoteBroker(found["control-url"]).records("orders")] == ["apples"]
    finally:
        os.kill(int(found["pid"]), 15)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_is_used_on_a_bare_debian(tmp_path: Path) -> None:
    if os.geteuid() != 0 or any(shutil.which(name) is None for name in bare_root.NEEDED):
        pytest.skip("a bare root needs root's rights and debootstrap")
    dry_run.packages(tmp_path)
    assert dry_run.bare(tmp_path).startswith("ok: ")
