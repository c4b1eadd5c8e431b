# Every target sets up what it needs: a machine with Python 3.11 or newer is enough.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check -q
# A plain path instead of setuptools' import hook, which costs every start of Python 20 ms.
EDITABLE := -C editable_mode=compat -e
ARGS ?=
# Tests run several at once, as most of them wait: for brokers, clients, JVMs. Four share two cores and 9 GB of memory.
WORKERS ?= 4
# Beside the default, which is in pyproject.toml.
OTHER_SPARKS := 3.5.7 4.3.0

.PHONY: run test check generate docs bench matrix interop dist spark-demo clean

run: $(VENV)/.run
	$(BIN)/pykafka-broker $(ARGS)

test: $(VENV)/.dev
	set -eo pipefail; where="$$($(BIN)/python -m interop.jars)"; eval "$$where"; $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

# Types take the most time: they begin first, and the rest runs beside them.
CHECKS := types format lint layers generated
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 -O $(CHECKS:%=.check-%)

.check-types:
	$(BIN)/mypy
.check-format:
	$(BIN)/ruff format --check .
.check-lint:
	$(BIN)/ruff check .
.check-layers:
	$(BIN)/lint-imports
.check-generated:
	$(BIN)/python -m protocol.generator --check
	$(BIN)/python -m pages --check

generate: $(VENV)/.dev
	$(BIN)/python -m protocol.generator
	$(BIN)/python -m pages

# The site in build/site; a warning ends it. `make docs ARGS=serve` shows it at 127.0.0.1:8000, with its search.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build)

bench: $(VENV)/.dev
	set -eo pipefail; where="$$($(BIN)/python -m interop.jars)"; eval "$$where"; $(BIN)/python -m bench $(ARGS)

# What clients of any age do here, what they do against Kafka, and what against this broker passing for an older one:
# interop/MATRIX.md and build/matrix/index.html. What a run of the last day has found is left as it is.
matrix: $(VENV)/.dev
	set -eo pipefail; where="$$($(BIN)/python -m interop.jars)"; eval "$$where"; \
	$(BIN)/python -m interop.matrix --resume $(ARGS)

interop: $(VENV)/.dev $(OTHER_SPARKS:%=.cache/pyspark-%)
	set -eo pipefail; where="$$($(BIN)/python -m interop.jars)"; eval "$$where"; \
	$(BIN)/python -m pytest -n $(WORKERS) interop spark/tests $(ARGS)
	set -eo pipefail; for version in $(OTHER_SPARKS); do \
	export PYTHONPATH="$(CURDIR)/.cache/pyspark-$$version"; \
	where="$$($(BIN)/python -m interop.jars)"; eval "$$where"; \
	$(BIN)/python -m pytest -n $(WORKERS) interop/spark spark/tests $(ARGS); done

# Wheel and sdist in dist/, checked and tried in every Python that is here.
dist: $(VENV)/.dev
	$(BIN)/python packaging/dist.py $(ARGS)

# The whole pipeline on a broker of its own; it checks its results against plain Python.
spark-demo: $(VENV)/.dev
	set -eo pipefail; where="$$($(BIN)/python -m interop.jars)"; eval "$$where"; \
	PYTHONPATH=spark $(BIN)/python -m pipeline demo --data-dir build/spark-demo $(ARGS)

.cache/pyspark-%:
	rm -rf $@.unfinished
	$(PIP) install --target $@.unfinished pyspark==$*
	mv $@.unfinished $@

clean:
	rm -rf $(VENV) .cache build *.egg-info

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(PIP) install $(EDITABLE) .
	touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) install $(EDITABLE) '.[docs]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) install $(EDITABLE) '.[test,dev]'
	touch $@ $(VENV)/.run $(VENV)/.docs
