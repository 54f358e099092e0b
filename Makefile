# For a newcomer: `make run` (a campaign with a report), `make kafka` (one on Apache Kafka) and
# `make test` (every check).
# For every commit: `make check`, some two minutes on two cores.
# Needs git, make and Python 3.11 to 3.13; everything else goes into .venv.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, ensurepip; sys.exit(not (3,11) <= sys.version_info[:2] <= (3,13))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Each file's tests in one process, in the order of tests/conftest.py: the longest files first.
BY_FILE := --dist loadfile --no-loadscope-reorder
# Left out of `make check`: what starts nodes, a JVM or a browser, and what takes a third of a second of a core.
QUICK := not cluster and not spark and not browser and not slow and not nightly
# --use-pep517: the pip of Debian 12 would warn of how it installs PySpark.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --use-pep517

# Seeds of `make nightly`: another day, other runs. `make nightly SEED=...` repeats a night.
SEED ?= $(shell date +%Y%m%d)

# Without compiled files, each node and command that a test starts would compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE

# A release of Apache Kafka, for `make kafka`: fetched, put under test, judged.
KAFKA ?= 4.3.1

# Where `make find` keeps its batch.
FOUND ?= runs/find

.PHONY: run kafka find test nightly check quick lint clean

run: $(VENV)/.run
	$(BIN)/kraftprobe run $(ARGS)

kafka: $(VENV)/.run
	$(BIN)/kraftprobe kafka fetch $(KAFKA)
	$(BIN)/kraftprobe run --system apache-kafka --kafka-version $(KAFKA) --campaign quick --faults kill,pause $(ARGS)

# A defect of that release's raft module: the first red seed of drawn worlds, cut to a few events.
find: $(VENV)/.run
	rm -rf $(FOUND)
	-$(BIN)/kraftprobe sim --system kafka-raft --kafka-version $(KAFKA) --seeds 0..60 --stop-at-first --out $(FOUND)
	$(BIN)/kraftprobe shrink --time 100 $(FOUND)/failures/*.json

# Half of the time is waiting, for campaigns, browsers and containers: six processes fill two cores.
test: PYTEST ?= -n 6 $(BY_FILE)
test: lint
	$(BIN)/python -m pytest $(PYTEST) -m 'not nightly'

nightly: PYTEST ?= -n 3 $(BY_FILE)
nightly: $(VENV)/.test
	@echo "make nightly SEED=$(SEED)"
	NIGHTLY_SEED=$(SEED) $(BIN)/python -m pytest $(PYTEST) -m nightly

check: lint quick

quick: PYTEST ?= -n 2 $(BY_FILE)
quick: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST) -m '$(QUICK)'

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info packages/porcupine-py/*.egg-info porcupine_py/kernels/*.so cluster/backends/machine/*.so

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "kraftprobe needs Python 3.11, 3.12 or 3.13 with its venv module (Debian: apt install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# What the searches and the faked clock are compiled from, anew by pip where one of these has changed.
COMPILED := setup.py $(wildcard cluster/backends/machine/*.c porcupine_py/kernels/build.py porcupine_py/kernels/*.[ch])

$(VENV)/.run: $(VENV)/bin/python requirements.lock pyproject.toml packages/porcupine-py/pyproject.toml $(COMPILED)
	$(PIP) --require-hashes --requirement requirements.lock
	$(PIP) --no-deps --editable packages/porcupine-py --editable .
	@touch $@

$(VENV)/.packages: $(VENV)/bin/python requirements-dev.lock
	$(PIP) --require-hashes --requirement requirements-dev.lock
	@touch $@

$(VENV)/.test: $(VENV)/.packages pyproject.toml packages/porcupine-py/pyproject.toml $(COMPILED)
	$(PIP) --no-deps --editable packages/porcupine-py --editable .
	@touch $@ $(VENV)/.run
