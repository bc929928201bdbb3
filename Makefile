# Needs Python >= 3.11 (another one: make PYTHON=python3.12 test) and make; the rest goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Always with the constraints: they name the one tested torch.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread per worker: xdist already fills the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help demo test long bench results-smoke format clean

help:
	@echo "make demo    train, fuse and compare small networks on real digits; writes demo/report.html"
	@echo "make test    formatter, linter, types and the default tests"
	@echo "make long    the tests marked long"
	@echo "make bench   time of tracing and of planes"
	@echo "make results-smoke  every experiment on tiny networks, with tables and figures, in build/smoke"
	@echo "make format  format and fix what can be fixed"
	@echo "make clean   remove .venv, caches and builds"

demo: $(VENV)/.runtime
	$(BIN)/transfuse demo

test: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -n 2 --dist loadgroup

long: $(VENV)/.dev
	$(PYTEST) -m long

bench: $(VENV)/.runtime
	$(BIN)/python benchmarks/trace_time.py
	$(BIN)/python benchmarks/plane_time.py
	$(BIN)/python benchmarks/command_memory.py --megabytes 100 --width 512 --methods vanilla

# Tiny networks on shipped digits: whether everything runs, not how well.
SMOKE := build/smoke
results-smoke: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments run all --profile smoke --results $(SMOKE)/results --cache $(SMOKE)/cache
	$(BIN)/python -m experiments tables --results $(SMOKE)/results --out $(SMOKE)/RESULTS.md
	$(BIN)/python -m experiments figures --results $(SMOKE)/results --out $(SMOKE)/figures

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an interrupted installation is done again.
$(VENV)/.runtime: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "transfuse needs Python >= 3.11; $(PYTHON) is none: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(INSTALL) -e '.[dev]'
	@touch $@
