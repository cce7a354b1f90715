# Every target does its own set-up: a fresh clone needs only Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# An engine's URL for `make serve`; without it the well-known ports of this machine are looked at, and with nothing there an
# engine with a small model of its own is started.
UPSTREAM ?=
# Tools that only a release needs have an environment of their own.
RELEASE := .venv-release
RELEASE_TOOLS := build hatchling cyclonedx-bom pip-audit
ARGS ?=
# How many processes run the tests of `make test`. 0: none but pytest itself, as a debugger needs it.
WORKERS ?= 2

.PHONY: setup serve test test-models test-clients test-browser screenshot check lint types bench bench-models fuzz soak golden transcripts release audit clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Antiphon needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# Where there is no prebuilt engine for a machine, nothing is compiled: Antiphon is installed without one.
$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --constraint constraints.txt --only-binary xllamacpp --editable '.[embedded]' || \
	  $(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/installed

setup: $(VENV)/installed-dev

serve: $(VENV)/installed
	$(BIN)/antiphon serve $(if $(UPSTREAM),--upstream $(UPSTREAM)) $(ARGS)

# A file of tests stays in one process. The order stays too: otherwise the slowest files, which have few tests, would come last.
test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow and not clients and not browser" $(ARGS)

# The tests that `make test` leaves out: every request of the model tests, and every kill of the crash test.
test-models: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m slow $(ARGS)

# Clients that others wrote, each in an environment of its own: these tests install them.
test-clients: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m clients tests/clients $(ARGS)

$(VENV)/installed-browser: $(VENV)/installed-dev
	$(PIP) install --constraint constraints.txt --editable '.[browser]'
	PYTHONPATH=tests $(BIN)/python -m support.chromium
	touch $@

# The inspector in a real Chromium, which is installed through apt where it is missing; axe-core comes through npm.
test-browser: $(VENV)/installed-browser
	$(BIN)/python -m pytest -m browser tests/browser $(ARGS)

# The picture of the inspector in docs/, made anew: look at it before committing it.
screenshot: $(VENV)/installed-browser
	PYTHONPATH=tests $(BIN)/python tests/browser/screenshot.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

check: lint types test

bench: $(VENV)/installed-dev
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.state
	PYTHONPATH=tests $(BIN)/python -m bench.store
	PYTHONPATH=tests $(BIN)/python -m bench.choices

# 100,000 requests and 20,000 broken engine streams against a gateway. ARGS="--seed N --requests N --streams N"
fuzz: $(VENV)/installed-dev
	PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

# Ten minutes of 1,000 clients, written to docs/soak.md. ARGS="--minutes N --streams N"
soak: $(VENV)/installed-dev
	$(BIN)/python -m soak $(ARGS)

# What a small model gets done, written to docs/small_models.md. It takes about an hour: see --help for parts of it.
bench-models: $(VENV)/installed-dev
	$(BIN)/python -m bench.models $(ARGS)

# Writes the expected events of the recorded streams anew: read the diff before committing it.
golden: $(VENV)/installed-dev
	$(BIN)/python tests/golden/record.py

# Records real sessions with a small model anew: read the diff before committing it. ARGS=--rewrite needs no model.
transcripts: $(VENV)/installed-dev
	PYTHONPATH=tests $(BIN)/python -m transcripts.record $(ARGS)

$(RELEASE)/installed: constraints.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt $(RELEASE_TOOLS)
	touch $@

# A wheel and a source distribution in dist/, tried in a clean environment, with the list of their components: docs/releasing.md.
release: $(RELEASE)/installed
	$(RELEASE)/bin/python -m release

# Known vulnerabilities of the pinned dependencies. Ends with 3 where that cannot be found out.
audit: $(RELEASE)/installed
	$(RELEASE)/bin/python -m release.audit

clean:
	rm -rf $(VENV) $(RELEASE) dist tests/clients/.venv* tests/clients/node_modules tests/browser/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
