# Every target does its own set-up: a fresh clone needs only Python 3.11+ and make.

# Where this is set, as in many containers, every process compiles all modules again: each start takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

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
# LiteLLM, which the benchmarks compare with, has one, too.
BENCH := .venv-bench
ARGS ?=
# How many processes run the tests of `make test`: more than cores, because many tests wait. 0: none but pytest itself, as a
# debugger needs it.
WORKERS ?= 4

.DEFAULT_GOAL := help
.PHONY: help setup serve test test-models test-clients test-browser screenshot check lint types bench bench-parts bench-endpoints bench-models fuzz sentences soak soak-mixed soak-gateways soak-usage soak-batches shape shape-costs golden transcripts sessions release audit clean

# From the comments beside the targets.
help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-14s %s\n", $$1, $$2 }'

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Antiphon needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# Where there is no prebuilt engine for a machine, nothing is compiled: Antiphon is installed without one.
$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing Antiphon into $(VENV)/. This takes a minute or two, once.'
	$(PIP) install --constraint constraints.txt --only-binary xllamacpp --editable '.[embedded]' || \
	  $(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing Antiphon and its tools into $(VENV)/. This takes a few minutes, once.'
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/installed

setup: $(VENV)/installed-dev ## install Antiphon and all that its development needs into .venv

serve: $(VENV)/installed ## run the gateway (UPSTREAM=URL of an engine; ARGS=flags of `antiphon serve`)
	$(BIN)/antiphon serve $(if $(UPSTREAM),--upstream $(UPSTREAM)) $(ARGS)

# A file of tests stays in one process. The order stays too: otherwise the slowest files, which have few tests, would come last.
test: $(VENV)/installed-dev ## run the tests, but for the slow ones, the clients and the browser (WORKERS=0: in one process; ARGS=options of pytest)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow and not clients and not browser" $(ARGS)

# The tests that `make test` leaves out: every request of the model tests, and every kill of the crash test.
test-models: $(VENV)/installed-dev ## run the slow tests, which repeat at full size what `make test` samples, or install a fresh clone
	$(BIN)/python -m pytest -m slow $(ARGS)

test-clients: $(VENV)/installed-dev ## run clients that others wrote against the gateway; installs them (Node 20+, npm)
	$(BIN)/python -m pytest -m clients tests/clients $(ARGS)

$(VENV)/installed-browser: $(VENV)/installed-dev
	$(PIP) install --constraint constraints.txt --editable '.[browser]'
	PYTHONPATH=tests $(BIN)/python -m support.chromium
	touch $@

# Chromium is installed through apt where it is missing; axe-core comes through npm.
test-browser: $(VENV)/installed-browser ## test the inspector in a real Chromium; installs it where it is missing
	$(BIN)/python -m pytest -m browser tests/browser $(ARGS)

screenshot: $(VENV)/installed-browser ## make the pictures of the inspector in docs anew; look at them
	PYTHONPATH=tests $(BIN)/python -m browser.screenshot

lint: $(VENV)/installed-dev ## check the style of the code (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev ## check the types (mypy, strict)
	$(BIN)/mypy

check: lint types test ## lint, types and test: what must pass before a commit

$(BENCH)/installed: bench/constraints-litellm.txt
	@echo 'Installing LiteLLM and llm-comply into $(BENCH)/, to compare with. This takes a minute or two, once.'
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip --disable-pip-version-check --quiet install --constraint bench/constraints-litellm.txt 'litellm[proxy]' llm-comply
	touch $@

bench: $(VENV)/installed-dev $(BENCH)/installed ## Antiphon beside nginx and LiteLLM, in 25 minutes on a quiet machine; writes docs/comparison.md (needs nginx and cc; ARGS="--quick --only ROW…")
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.page

bench-parts: $(VENV)/installed-dev $(BENCH)/installed ## the other parts of docs/comparison.md: chains, stores, search of files, required calls
	$(BIN)/python -m bench.state
	PYTHONPATH=tests $(BIN)/python -m bench.store
	PYTHONPATH=tests $(BIN)/python -m bench.retrieval
	PYTHONPATH=tests $(BIN)/python -m bench.choices
	$(BIN)/python -m bench.page

bench-endpoints: $(VENV)/installed-dev $(BENCH)/installed ## the endpoints of llama.cpp, LiteLLM and Antiphon, in hours; writes docs/comparison.md (ARGS="--parts checks")
	PYTHONPATH=tests $(BIN)/python -m bench.endpoints $(ARGS)
	$(BIN)/python -m bench.page

fuzz: $(VENV)/installed-dev ## 100,000 random requests and 20,000 broken streams (ARGS="--seed N --requests N --streams N")
	PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

soak: $(VENV)/installed-dev ## ten minutes of 1,000 clients, then soak-mixed; writes docs/soak.md (ARGS="--minutes N --streams N")
	$(BIN)/python -m soak $(ARGS)
	$(MAKE) soak-mixed ARGS=

soak-mixed: $(VENV)/installed-dev ## 30,000 requests of every route, tool and protocol, a tenth of them hostile; writes docs/soak.md (ARGS="--requests N --seed N")
	PYTHONPATH=tests $(BIN)/python -m soak.mixed $(ARGS)

soak-gateways: $(VENV)/installed-dev ## five minutes of three gateways on one Postgres behind nginx, one killed each minute; writes docs/soak.md
	PYTHONPATH=tests $(BIN)/python -m soak.gateways $(ARGS)

soak-usage: $(VENV)/installed-dev ## two minutes of two gateways with two workers each, of which some are killed: what is counted; writes docs/soak.md
	PYTHONPATH=tests $(BIN)/python -m soak.usage $(ARGS)

soak-batches: $(VENV)/installed-dev ## a batch of 10,000 lines on one gateway, and on three that are killed in turn, while people ask; writes docs/soak.md (ARGS=--times: on a quiet machine)
	PYTHONPATH=tests $(BIN)/python -m soak.batches $(ARGS)

shape: $(VENV)/installed-dev ## the shape of the source tree beside its targets: folders, functions, classes, what runs for a "hello" (ARGS="--names --tests --tree PATH")
	$(BIN)/python -m shape --before shape/before.json $(ARGS)

shape-costs: $(VENV)/installed-dev ## shape, and what requests cost in instructions and memory, in a few minutes (needs valgrind)
	$(BIN)/python -m shape --costs --before shape/before.json $(ARGS)

sentences: ## the longest sentences of the documents (ARGS="--most N")
	$(PYTHON) -m shape.sentences $(ARGS)

bench-models: $(VENV)/installed-dev ## measure what a small model gets done, in hours; writes docs/small_models.md (ARGS=--help: parts of it)
	$(BIN)/python -m bench.models $(ARGS)

golden: $(VENV)/installed-dev ## write the expected events of the recorded streams anew; read the diff
	$(BIN)/python tests/golden/record.py

transcripts: $(VENV)/installed-dev ## record sessions with a small model anew; read the diff (ARGS=--rewrite needs no model)
	PYTHONPATH=tests $(BIN)/python -m transcripts.record $(ARGS)

sessions: $(VENV)/installed-dev ## record a session of Claude Code anew, which is installed for it (Node 22+, npm); read the diff
	PYTHONPATH=tests $(BIN)/python -m sessions.record

$(RELEASE)/installed: constraints.txt
	@echo 'Installing the tools of a release into $(RELEASE)/. This takes a minute or two, once.'
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt $(RELEASE_TOOLS)
	touch $@

# A wheel and a source distribution in dist/, tried in a clean environment, with the list of their components: docs/releasing.md.
release: $(RELEASE)/installed ## build and try a wheel and a source distribution in dist/ (docs/releasing.md)
	$(RELEASE)/bin/python -m release

# Known vulnerabilities of the pinned dependencies. Ends with 3 where that cannot be found out.
audit: $(RELEASE)/installed ## look for known vulnerabilities of the dependencies
	$(RELEASE)/bin/python -m release.audit

clean: ## remove the environments, packages and caches that the other targets have made
	rm -rf $(VENV) $(RELEASE) $(BENCH) dist tests/clients/.venv* tests/clients/node_modules tests/browser/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
