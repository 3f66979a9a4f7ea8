# The documented commands. `make demo` and `make test` need only Python 3.11 to 3.13 with pip.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)
# The order matters: torch first, so that nothing else chooses a build of it.
TORCH ?= torch==2.13.0
TRITON ?= triton==3.6.0
# Triton 3.6.0's interpreter fails under numpy 2.4.
NUMPY ?= numpy<2.4
# Users bring Triton 3.6 to 3.9; the far end is only compiled against, in subprocesses.
NEWEST_TRITON ?= triton==3.9.0
PYTEST_ARGS ?= -n auto --maxprocesses 8

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
NEWEST := $(VENV)/triton-newest

.DELETE_ON_ERROR:
.PHONY: venv demo test lint types golden defaults wheel clean

venv: $(VENV)/.installed

# Debian's Python may lack ensurepip: then its own pip furnishes the environment.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 to 3.13 on PATH; set PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
		&& $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) install --quiet $(TORCH)
	$(PIP) install --quiet "$(TRITON)" "$(NUMPY)"
	$(PIP) install --quiet "$(TRITON)" "$(NUMPY)" -e '.[dev]'
	@touch $@

$(NEWEST)/.installed: | $(VENV)/.installed
	rm -rf $(NEWEST)
	$(PIP) install --quiet --no-deps --target $(NEWEST) "$(NEWEST_TRITON)"
	@touch $@

demo: venv
	$(BIN)/fagen explain variants/sliding_window.yaml --q-len 16384
	@echo
	$(BIN)/fagen build variants/sliding_window.yaml
	@echo
	$(BIN)/fagen build variants/sliding_window.yaml --check

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

test: lint types $(NEWEST)/.installed
	FAGEN_NEWEST_TRITON=$(CURDIR)/$(NEWEST) $(BIN)/python -m pytest $(PYTEST_ARGS)

golden: venv
	$(BIN)/python -m pytest -q tests/codegen/test_golden.py tests/analysis/test_shipped_walks.py \
		-k 'test_golden or test_the_report' --update-golden

# Every default config on every GPU, compiled: about half an hour on two cores.
defaults: venv
	$(BIN)/python -m fagen.device.defaults

wheel: venv
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
