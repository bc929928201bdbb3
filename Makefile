# Needs Python >= 3.11 (another one: make PYTHON=python3.12 test) and make; the rest goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Always with the constraints: they name the one tested torch.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# One thread per worker: xdist already fills the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help demo test long docs journeys test-package test-flower bench bench-long results-smoke format clean

help:
	@echo "make demo    train, fuse and compare small networks on real digits; writes demo/report.html"
	@echo "make test    formatter, linter, types and the default tests"
	@echo "make long    the tests marked long"
	@echo "make docs    the site, in build/site; a broken link or reference is an error"
	@echo "make test-package  wheel and sdist as they are shipped, in environments of their own; the notebook"
	@echo "make journeys  the journeys of new users, from end to end, each with its time"
	@echo "make test-flower  federated rounds with Flower and work on a Dask cluster, in an environment of their own"
	@echo "make bench   time and memory of imports, traces, fusions, planes and peers, in minutes; make bench-long: all of them"
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

# Without the network once it is installed; to search the site, serve it: python -m http.server -d build/site
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

# Builds and installs from an index, as a user would; minutes.
test-package: $(VENV)/.package
	$(PYTEST) -n 0 -m long tests/test_packaging.py tests/test_notebook.py tests/test_site.py

# Each tells its time (-s); what pytest measures besides has the start of Python in it.
journeys: $(VENV)/.package
	$(PYTEST) -n 0 -m long -s --durations=0 tests/test_journeys.py tests/test_notebook.py tests/test_packaging.py

# Flower holds back rich, typer and protobuf: an environment of its own, and only torch is pinned in it. Its runs start
# real processes, some of which are killed; each is bounded in time.
FLOWER := .venv-flower
test-flower: $(FLOWER)/.made
	OMP_NUM_THREADS=1 $(FLOWER)/bin/python -m pytest -n 0 -m "long or not long" \
		tests/flower tests/federated tests/landscape/test_workers.py tests/fusing/test_spread.py

# Figures go to build/bench as JSON; docs/performance.md says what they mean.
BENCH := build/bench
MEASURE := OMP_NUM_THREADS=1 $(BIN)/python benchmarks
bench: $(VENV)/.runtime
	@mkdir -p $(BENCH)
	$(MEASURE)/import_time.py --json $(BENCH)/import.json
	$(MEASURE)/trace_time.py --repeats 1 --json $(BENCH)/trace.json
	$(MEASURE)/fuse_time.py --methods wb --json $(BENCH)/fuse.json
	$(MEASURE)/growth.py --widest 1024 --json $(BENCH)/growth.json
	$(MEASURE)/peers.py --networks MLP-digits MLPNet $(if $(REBASIN),--rebasin $(REBASIN)) --json $(BENCH)/peers.json
	$(MEASURE)/plane_time.py --repeats 1 --json $(BENCH)/plane.json
	$(MEASURE)/federated_time.py --clients 4 10 30 --repeats 1 --json $(BENCH)/federated.json
	$(MEASURE)/whole_call.py --networks tiny ResNet20 --json $(BENCH)/whole_call.json
	$(MEASURE)/command_memory.py --megabytes 100 --width 512 --methods vanilla --json $(BENCH)/command.json

# Everything, hours. With the package rebasin in an environment of its own: make bench-long REBASIN=.../python
bench-long: bench $(VENV)/.dev
	$(MEASURE)/fuse_time.py --methods auto --json $(BENCH)/fuse_auto.json
	$(MEASURE)/whole_call.py --json $(BENCH)/whole_call.json
	$(MEASURE)/rotation_time.py --json $(BENCH)/rotation.json
	$(MEASURE)/fuse_time.py --models 8 --networks MLPNet VGG11 ResNet18 RNN-256 LSTM-256 --json $(BENCH)/fuse_8.json
	$(MEASURE)/fuse_time.py --models 8 --networks ResNet50 MLP-4096 "GPT-2 small" --repeats 1 --sweeps 1 --json $(BENCH)/fuse_8_large.json
	$(MEASURE)/fuse_time.py --networks "GPT-2 small" --repeats 1 --json $(BENCH)/fuse_gpt2.json
	$(MEASURE)/growth.py --widest 8192 --json $(BENCH)/growth.json --plot docs/figures/performance_growth.svg
	$(MEASURE)/peers.py --loops --networks MLP-digits MLPNet VGG11 ResNet18 ResNet50 RNN-256 LSTM-256 \
		$(if $(REBASIN),--rebasin $(REBASIN)) --json $(BENCH)/peers.json

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
	rm -rf $(VENV) $(FLOWER) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an interrupted installation is done again.
$(VENV)/.runtime: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "transfuse needs Python >= 3.11; $(PYTHON) is none: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	@touch $@

$(FLOWER)/.made: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check \
		-e '.[test,flower,distributed]' 'flwr[simulation]>=1.41,<2'
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.package: $(VENV)/.docs $(VENV)/.dev
	$(INSTALL) -e '.[notebook]' build
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(INSTALL) -e '.[dev]'
	@touch $@
