# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` names the others.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := src studies tests benchmarks tools
RUN ?= runs/demo
PEERS_DATA ?= lastfm
PYTHONS ?= $(PYTHON)
SECONDS ?= 300
SEED ?= 0
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt


.PHONY: help demo test test-bounds test-install fuzz audit lint format docs docs-serve build bench results peers clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{ printf "make %-12s %s\n", $$1, $$2 }'

$(VENV)/core: pyproject.toml studies/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[demo,plot]' -e ./studies
	touch $@

$(VENV)/site: $(VENV)/core
	$(PIP) -e '.[docs]'
	touch $@

$(VENV)/dev: $(VENV)/core
	$(PIP) -e '.[dev]' -e './studies[dask,report]'
	touch $@

demo: $(VENV)/core ## Train on real film ratings, print accuracy, size and recommendations
	rm -rf $(RUN)
	$(BIN)/legcf train movielens-small --min-rating 4 --k-core 5 --bytes 200kB --final --out $(RUN)
	$(BIN)/legcf export $(RUN) $(RUN)/model.legcf --users none
	$(BIN)/legcf recommend $(RUN) --user 15 -k 10

test: lint ## ruff, mypy --strict, the layers of imports and every test
	$(BIN)/pytest -n 2 --dist worksteal

test-bounds: $(VENV)/dev ## Compiled loops with every index checked: edges of sizes, crafted model files
	$(BIN)/pytest tests/core/test_bounds.py

fuzz: $(VENV)/dev ## Five minutes of damaged and invented input to every reader; SECONDS=60 SEED=1 for others
	TMPDIR=$${TMPDIR:-/tmp} OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

audit: $(VENV)/dev ## A bill of materials in sbom.json, and its packages against known advisories where there is network
	$(BIN)/python tools/audit.py sbom.json

test-install: $(VENV)/dev ## A wheel in an empty environment trains and serves; PYTHONS="python3.12 python3.13" names other Pythons
	TMPDIR=$${TMPDIR:-/tmp} PYTHONS="$(PYTHONS)" $(BIN)/pytest -m install tests/test_installation.py --timeout 1800

lint: $(VENV)/dev ## What `make test` checks before the tests
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: $(VENV)/dev ## Put the code in the form that `make lint` asks for
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

docs: $(VENV)/site ## The documentation as a site in site/; a broken link or reference fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open site/index.html: it needs no server and no network."

docs-serve: $(VENV)/site ## The same, in a browser while you write
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

build: $(VENV)/dev ## Source distributions and wheels of legcf and legcf-studies in dist/
	$(BIN)/python -m build
	$(BIN)/python -m build --outdir dist studies

bench: $(VENV)/dev ## Every benchmark, each printing ratios measured in one run and writing JSON
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file; done

results: $(VENV)/dev ## Rows of docs/results.md anew, about an hour on two quiet cores; the data are in ../shared/data
	rm -f benchmarks/results/one-file.json
	$(BIN)/python benchmarks/one_file.py
	$(BIN)/python benchmarks/bench_fit.py
	$(BIN)/python benchmarks/bench_start.py
	$(BIN)/python benchmarks/bench_core.py

peers: $(VENV)/dev ## Other projects on the same split, machine and day, into docs/peers.md; goes on where it was stopped
	$(BIN)/python benchmarks/peers $(PEERS_DATA)

clean: ## Remove what was made here
	rm -rf $(VENV) runs site dist build
