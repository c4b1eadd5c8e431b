"""The scripts in workflows, run as their host runs them, with a fake of Docker where they want one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.packaging.test_release import PROJECT, ROOT, workflow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the scripts are for Linux runners and their bash")

# The containers of one broker, which runs as a process. STATE has its id, address and control URL, a file each.
DOCKER = """#!{python}
import os, re, subprocess, sys, time
from pathlib import Path

state, python = Path({state!r}), sys.executable
command, *rest = sys.argv[1:]
with (state / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if command == "inspect" and "User" in rest[1]:
    print((state / "user").read_text())
elif command == "inspect":
    print("healthy" if (state / "ready").exists() else "starting")
elif command == "run":
    options = [each.replace("0.0.0.0:9644", "127.0.0.1:0") for each in rest[rest.index("broker") + 1 :]]
    log = (state / "log").open("w")
    process = subprocess.Popen(
        [python, "-m", "pykafka_broker", "--listen", "0", "--data-dir", str(state / "data"),
         "--ready-file", str(state / "ready"), *options],
        stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    (state / "pid").write_text(str(process.pid))
    print("container")
elif command == "exec":
    tool = [each.replace("localhost:9092", (state / "ready").read_text().strip()) for each in rest[3:]]
    sys.exit(subprocess.run([python, "-m", "pykafka_broker", *tool]).returncode)
elif command == "logs":
    print((state / "log").read_text())
elif command == "save":
    print("x" * 1000)
elif command == "buildx" and "inspect" in rest:
    print('"sha256:' + "0" * 64 + '"')
"""
CURL = """#!{python}
import re, sys, urllib.request
from pathlib import Path

url = re.search(r"control on (\\S+)", (Path({state!r}) / "log").read_text())[1]
print(urllib.request.urlopen(sys.argv[-1].replace("http://127.0.0.1:9644", url)).read().decode())
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the fake Docker: what it knows, and what it was told (`calls`)."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "user").write_text("1000")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("docker", DOCKER), ("curl", CURL)):
        (programs / name).write_text(text.replace("{python}", sys.executable).replace("{state!r}", repr(str(folder))))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    return folder


# A Python whose environments have a broker that never gets ready; it writes down its process.
PYTHON = """#!/bin/sh
[ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
[ "$2" = pykafka_broker ] && echo "not ready yet" && echo $$ > {pid} && exec /bin/sleep 1000
exit 0
"""


def is_running(process: int) -> bool:
    """Return whether a process lives; one that has ended may stay until its parent looks."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def bash(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=120)


def step(file: str, job: str, identity: str) -> str:
    (found,) = (each for each in workflow(file)["jobs"][job]["steps"] if each.get("id") == identity)
    return str(found["run"])


@pytest.mark.parametrize(("tag", "status"), [(f"v{PROJECT['version']}", 0), ("v99.0.0", 1), (PROJECT["version"], 1)])
def test_a_release_has_the_tag_of_its_version(tag: str, status: int, state: Path) -> None:
    script = step("release.yml", "build", "version").replace("python -c", f"{sys.executable} -c")
    done = bash(script, GITHUB_REF_TYPE="tag", GITHUB_REF_NAME=tag)
    assert done.returncode == status, done.stderr
    outputs = Path(os.environ["GITHUB_OUTPUT"])
    assert outputs.exists() == (status == 0)
    assert status or outputs.read_text() == f"version={PROJECT['version']}\n"


@pytest.mark.parametrize("version", ["", "0.1.0"])
def test_an_image_has_the_commit_as_its_tag_and_a_release_its_version(version: str, state: Path) -> None:
    environment = {"IMAGE": "registry.example/Owner/Name", "GITHUB_SHA": "abc", "GITHUB_ACTOR": "me", "TOKEN": "t"}
    done = bash(step("image.yml", "publish", "join"), VERSION=version, **environment)
    assert done.returncode == 0, done.stderr
    name = "registry.example/owner/name"
    create = next(line for line in (state / "calls").read_text().splitlines() if "imagetools create" in line)
    tags = [f"{name}:abc", *([f"{name}:{version}", f"{name}:latest"] if version else [])]
    assert create.split("create ")[1] == " ".join(
        [*(f"--tag {tag}" for tag in tags), f"{name}:abc-amd64 {name}:abc-arm64"]
    )
    assert Path(os.environ["GITHUB_OUTPUT"]).read_text() == f"name={name}\ndigest=sha256:{'0' * 64}\n"


def test_an_image_is_tried_before_it_is_published(state: Path) -> None:
    done = bash("bash packaging/try_image.sh broker")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "apples" in done.stdout.splitlines()
        assert "<title>pykafka-broker</title>" in done.stdout
        calls = (state / "calls").read_text().splitlines()
        assert "rm --force --volumes container" in calls
    finally:
        os.kill(int((state / "pid").read_text()), 15)


def test_an_image_that_runs_as_root_is_not_published(state: Path) -> None:
    (state / "user").write_text("")
    done = bash("bash packaging/try_image.sh broker")
    assert (done.returncode, done.stderr) == (1, "broker runs as root\n")


def test_a_broker_that_does_not_get_ready_ends_with_the_action(state: Path, tmp_path: Path) -> None:
    programs = {
        "python3": PYTHON.format(pid=tmp_path / "pid"),
        "seq": "#!/bin/sh\necho 1 2 3\n",
        "sleep": f"#!/bin/sh\nuntil [ -s {tmp_path / 'pid'} ]; do /bin/sleep 0.01; done\n",
    }
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    action = yaml.safe_load((ROOT / "packaging" / "github-action" / "action.yml").read_text(encoding="utf-8"))
    done = bash(action["runs"]["steps"][0]["run"], VERSION="x", PORT="0", OPTIONS="", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "not ready yet\n")
    process = int((tmp_path / "pid").read_text())
    try:
        while is_running(process):  # until the signal has arrived
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, 9)
