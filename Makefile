PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BENCH_OUT ?= results/quick

BIN := $(VENV)/bin
# Each worker takes a stretch of the tests, so that what a module needs, or Numba compiles, is made once.
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt
EXAMPLES = $(sort $(wildcard examples/*.py))
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg

.PHONY: help bench starting test slow record lint format types docs examples libraries speed build clean

help:
	@echo "make bench      run the quick benchmark and say where its report lies"
	@echo "make test       run the tests, without the slow ones        make slow     run these"
	@echo "make record     run all tests and write which are slow (before a release, and if the budget is spent)"
	@echo "make lint       ruff: rules and format        make format   apply both"
	@echo "make types      mypy --strict                 make docs     build the HTML pages"
	@echo "make examples   run every example             make build    wheels and sdists in dist/"
	@echo "make libraries  run the examples with learning libraries, in environments of their own, and make their page"
	@echo "make speed      run all benchmarks of speed beside their peers, and print their table"
	@echo "python tools    what maintainers do by hand: find settings, keep results, plant mistakes"
	@echo "make clean      remove all that but results/"
	@echo "PYTHON=python3.12 picks the interpreter of a new $(VENV)."

bench: starting $(VENV)/.bench
	@echo "2 of 3: the quick benchmark (a minute or two)"
	@$(BIN)/taciturn bench --quick --out $(BENCH_OUT) $(if $(wildcard $(BENCH_OUT)/*),--resume)
	@echo "3 of 3: re-running a sample of the stored results (half a minute)"
	@$(BIN)/taciturn verify --cells 12 --longest 1
	@echo
	@echo "Next: an agent of your own, and a paper's figure"
	@echo "  $(BIN)/taciturn bench --agent mine:act --out results/mine"
	@echo "  $(BIN)/taciturn reproduce jiang2020/3.3 --out results/figure"

starting:
	@echo "1 of 3: $(if $(wildcard $(VENV)/.bench),$(VENV) is there,making $(VENV) and installing (about a minute))"

test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

# Those that took 0.3 CPU seconds or more when `make record` last wrote tests/slow.json, and those that say so.
slow: $(VENV)/.dev
	$(PYTEST) -m slow

record: $(VENV)/.dev
	$(PYTEST) --record-slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -n -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

examples: $(VENV)/.dev
	@set -e; for example in $(EXAMPLES); do echo "$$example"; $(BIN)/python $$example; done
	$(BIN)/python examples/libraries/run.py --here

# In environments of their own, some GB; LIBRARIES="rllib torchrl" runs only these.
libraries: $(VENV)/.dev
	$(BIN)/python examples/libraries/run.py $(LIBRARIES)

# About half an hour, alone on the machine; SPEED="steps gymnax_peer" runs only these.
speed: $(VENV)/.dev
	$(BIN)/python benchmarks/speed.py $(SPEED)

build: $(VENV)/.dev
	rm -rf dist build papers/build
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python -m build --no-isolation --outdir dist papers

clean:
	rm -rf $(VENV) .venv-* build papers/build dist docs/_build docs/api .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "taciturn needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.bench: pyproject.toml papers/pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) setuptools
	$(PIP) --no-build-isolation --editable '.[bench,data,fast,rl]' --editable ./papers
	@touch $@

$(VENV)/.dev: pyproject.toml papers/pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the development environment into $(VENV) (a few minutes the first time)"
	$(PIP) setuptools
	$(PIP) --no-build-isolation --editable '.[dev]' --editable ./papers
	@touch $(VENV)/.bench $@
