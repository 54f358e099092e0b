# Two commands for a newcomer: `make run` (a campaign with a report) and `make test` (every check).
# Needs git, make and Python 3.11 to 3.13; everything else goes into .venv.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, ensurepip; sys.exit(not (3,11) <= sys.version_info[:2] <= (3,13))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
# Two at a time, each file's tests in one process; what starts clusters is happy with two cores.
PYTEST ?= -n 2 --dist loadfile
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run test clean

run: .venv/.run
	$(BIN)/kraftprobe run $(ARGS)

test: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest $(PYTEST)

clean:
	rm -rf .venv build *.egg-info

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "kraftprobe needs Python 3.11, 3.12 or 3.13 with its venv module (Debian: apt install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv .venv

.venv/.run: .venv/bin/python requirements.lock pyproject.toml
	$(PIP) install --constraint requirements.lock --editable .
	@touch $@

.venv/.test: .venv/bin/python requirements.lock pyproject.toml
	$(PIP) install --constraint requirements.lock --editable '.[dev]'
	@touch $@ .venv/.run
