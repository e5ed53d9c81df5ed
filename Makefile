# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= runs/demo
PEERS_DATA ?= lastfm

.PHONY: demo test lint bench peers clean

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,plot]'
	touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/core ## Train on real film ratings, print accuracy, size and recommendations
	rm -rf $(RUN)
	$(BIN)/legcf train movielens-small --min-rating 4 --k-core 5 --bytes 200kB --final --out $(RUN)
	$(BIN)/legcf export $(RUN) $(RUN)/model.legcf --users none
	$(BIN)/legcf recommend $(RUN) --user 15 -k 10

test: lint ## ruff, mypy --strict, the layers of imports and every test
	$(BIN)/pytest -n 2

lint: $(VENV)/dev
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

bench: $(VENV)/dev ## Every benchmark, each printing ratios measured in one run and writing JSON
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file; done

peers: $(VENV)/dev ## Other projects on the same split, machine and day, into docs/peers.md; goes on where it was stopped
	$(BIN)/python benchmarks/peers $(PEERS_DATA)

clean:
	rm -rf $(VENV) runs
