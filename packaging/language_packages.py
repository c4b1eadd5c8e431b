"""The packages of other languages as a release has them: built from a copy, and used by a project of their own.

Rule: nothing is built in the checkout. A package is tried as its user has it: installed from the file that would be
published, into a folder that knows no checkout, where the example of its README passes against a real client. The
broker is PYKAFKA_BROKER_PROGRAM, or else the one of this Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
FOLDER = ROOT / "packaging" / "languages"
NPM_QUIET = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


class PackageFailed(Exception):
    """A package that can't be built or used; the text has the output of what failed."""


def npm(out: Path) -> str:
    """Pack the npm package, check its types, and run README's example with the packed file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = staged("node", Path(folder) / "package")
        run(copy, "npm", "install", *NPM_QUIET)
        run(copy, "npm", "test")
        run(copy, "npx", "--no-install", "tsc", "--noEmit", "--strict", "--types", "node", "test/types.ts")
        client = run(copy, "node", "-p", "'kafkajs@' + require('./package.json').devDependencies.kafkajs").strip()
        run(copy, "npm", "pack", "--silent", "--pack-destination", str(out))
        (made,) = out.glob("pykafka-broker-*.tgz")
        user = Path(folder) / "user"
        user.mkdir()
        (user / "package.json").write_text('{ "private": true }')
        run(user, "npm", "install", *NPM_QUIET, str(made), client)
        (user / "orders.test.js").write_text(example("node", "javascript"), encoding="utf-8")
        run(user, "node", "--test", "orders.test.js")
    return made.name


def go(out: Path) -> str:
    """Make the module as a proxy has it, and run README's example with that in a module of its own."""
    with tempfile.TemporaryDirectory() as folder:
        copy = staged("go", Path(folder) / "package")
        if unformatted := run(copy, "gofmt", "-l", "."):
            raise PackageFailed(f"gofmt would change {unformatted}")
        run(copy, "go", "vet", "./...")
        run(copy, "go", "test", "-count=1", "./...")
        module = json.loads(run(copy, "go", "mod", "edit", "-json"))["Module"]["Path"]
        version = f"v{VERSION}"
        versions = out / module / "@v"
        versions.mkdir(parents=True)
        (versions / f"{version}.info").write_text(json.dumps({"Version": version}))
        shutil.copy(copy / "go.mod", versions / f"{version}.mod")
        with zipfile.ZipFile(versions / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as made:
            for path in sorted(each for each in copy.rglob("*") if each.is_file()):
                made.write(path, f"{module}@{version}/{path.relative_to(copy).as_posix()}")
        user = Path(folder) / "user"
        user.mkdir()
        for name in ("go.mod", "go.sum"):
            shutil.copy(ROOT / "interop" / "languages" / "go" / name, user)
        (user / "orders_test.go").write_text(example("go", "go"), encoding="utf-8")
        where = {
            "GOPROXY": f"{out.resolve().as_uri()},{run(copy, 'go', 'env', 'GOPROXY').strip()}",
            "GONOSUMDB": module,
        }
        where |= {"GOFLAGS": "-mod=mod -modcacherw", "GOMODCACHE": str(Path(folder) / "modules")}
        own_cache = Path(run(copy, "go", "env", "GOMODCACHE").strip()) / "cache" / "download"
        if own_cache.is_dir():  # what this machine has need not be fetched again
            where["GOPROXY"] = f"{own_cache.as_uri()},{where['GOPROXY']}"
        run(user, "go", "get", f"{module}@{version}", environment=where)
        run(user, "go", "test", "-count=1", "./...", environment=where)
    return f"{module} {version}"


def maven(out: Path) -> str:
    """Deploy the JUnit 5 extension to a repository of files, and run README's example in a project that has it so."""
    quiet = ("mvn", "--batch-mode", "--quiet")
    with tempfile.TemporaryDirectory() as folder:
        copy = staged("java", Path(folder) / "package")
        run(
            copy, *quiet, "deploy", "-Dmaven.install.skip", f"-DaltDeploymentRepository=files::{out.resolve().as_uri()}"
        )
        (jar,) = (each for each in out.rglob("*.jar") if not each.stem.endswith(("-sources", "-javadoc")))
        tests = Path(folder) / "user" / "src" / "test" / "java"
        tests.mkdir(parents=True)
        (tests / "OrdersTest.java").write_text(example("java", "java"), encoding="utf-8")
        pom = (copy / "pom.xml").read_text(encoding="utf-8")
        named = {name: re.findall(f"<{name}>([^<]+)<", pom)[0] for name in ("groupId", "artifactId", "version")}
        user = MAVEN_USER.format(repository=out.resolve().as_uri(), **named)
        (Path(folder) / "user" / "pom.xml").write_text(user, encoding="utf-8")
        # Maven keeps what it has fetched: the package must come from the repository of files now, and not next time.
        known = Path(folder) / "known"  # Maven colours what it prints, but not what it writes
        run(copy, *quiet, "help:evaluate", "-Dexpression=settings.localRepository", f"-Doutput={known}")
        kept = Path(known.read_text(encoding="utf-8").strip(), *named["groupId"].split("."), named["artifactId"])
        shutil.rmtree(kept, ignore_errors=True)
        try:
            run(Path(folder) / "user", *quiet, "test")
            if not list(kept.rglob("*.jar")):
                raise PackageFailed(f"Maven has kept no jar in {kept}: it may have used an older one")
        finally:
            shutil.rmtree(kept, ignore_errors=True)
    return jar.name


MAVEN_USER = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>orders</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <repositories>
    <repository>
      <id>files</id>
      <url>{repository}</url>
    </repository>
  </repositories>
  <dependencies>
    <dependency>
      <groupId>{groupId}</groupId>
      <artifactId>{artifactId}</artifactId>
      <version>{version}</version>
      <scope>test</scope>
    </dependency>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.11.4</version>
      <scope>test</scope>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-clients</artifactId>
      <version>4.4.0</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <artifactId>maven-compiler-plugin</artifactId>
        <version>3.13.0</version>
      </plugin>
      <plugin>
        <artifactId>maven-surefire-plugin</artifactId>
        <version>3.5.2</version>
      </plugin>
    </plugins>
  </build>
</project>
"""


def nuget(out: Path) -> str:
    """Pack the .NET package, run its tests, and run README's example in a project that has it from a folder."""
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1", "MSBUILDDISABLENODEREUSE": "1"}
        quiet |= {"UseSharedCompilation": "false", "NUGET_PACKAGES": str(Path(folder) / "nuget")}
        copy = staged("dotnet", Path(folder) / "package")
        run(copy, "dotnet", "run", "--project", "test", environment=quiet)
        run(copy, "dotnet", "pack", "src", "--configuration", "Release", "--output", str(out), environment=quiet)
        user = Path(folder) / "user"
        user.mkdir()
        (user / "OrdersTest.cs").write_text(example("dotnet", "csharp"), encoding="utf-8")
        shutil.copy(copy / "test" / "Xunit.cs", user)
        (user / "Orders.csproj").write_text(NUGET_USER.format(version=VERSION, folder=out.resolve()), encoding="utf-8")
        run(user, "dotnet", "run", environment=quiet)
        (made,) = out.glob("*.nupkg")
    return made.name


NUGET_USER = """<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>netcoreapp$(BundledNETCoreAppTargetFrameworkVersion)</TargetFramework>
    <Nullable>enable</Nullable>
    <RestoreSources>{folder}</RestoreSources>
  </PropertyGroup>
  <ItemGroup>
    <PackageReference Include="PykafkaBroker" Version="{version}" />
  </ItemGroup>
</Project>
"""

PACKAGES: dict[str, tuple[str, Callable[[Path], str]]] = {  # by step: the program that is needed, and what to do
    "npm": ("npm", npm),
    "go": ("go", go),
    "maven": ("mvn", maven),
    "nuget": ("dotnet", nuget),
}


def build(name: str, out: Path) -> str:
    """Build and try a package, with its files in `out`. Raises PackageFailed."""
    program, make = PACKAGES[name]
    if shutil.which(program) is None:
        return f"{program} is not installed"
    folder = out / "packages" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return f"{make(folder)} built, and README's example passed with it"


def staged(language: str, copy: Path) -> Path:
    """Copy the files of a package that git knows, with the license. Returns the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=FOLDER / language,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / language / name, copy / name)
    shutil.copy(ROOT / "LICENSE", copy)
    return copy


def example(language: str, fence: str) -> str:
    """Return the first program of a package's README."""
    readme = (FOLDER / language / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^```{fence}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise PackageFailed(f"the README of {language} has no example")
    return found[1]


def run(folder: Path, *command: str, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    environment = {"PYKAFKA_BROKER_PROGRAM": sys.executable, **os.environ, **environment}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise PackageFailed(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
