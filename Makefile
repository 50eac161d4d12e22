# `make demo` and `make test` work on a fresh machine: they make .venv first and keep it up to date.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# torch is pinned on every call, so that no dependency can exchange it.
PINS := "torch==2.13.0" "jax[tpu]==0.10.2"

# Programs run on the CPU; libtpu compiles for chips that are not there without asking for them.
export JAX_PLATFORMS ?= cpu
export TPU_SKIP_MDS_QUERY ?= 1
export TPU_ACCELERATOR_TYPE ?= v5litepod-1
export TPU_WORKER_HOSTNAMES ?= localhost
export ALLOW_MULTIPLE_LIBTPU_LOAD ?= 1

WORKERS ?= 2

.PHONY: venv demo test fuzz lint format bench clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "tpu_inductor needs Python 3.11"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt $(PINS) -e ".[dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/llama.py

test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m test.fuzz $(FUZZ)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/pyright

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/run.py $(BENCH)

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis
