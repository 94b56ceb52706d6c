# Everything a newcomer needs: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-gpu torture check format docs notebook clean

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("oryx-marl needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready  ## Oryx learns T-Maze from the embedded logs and writes a page
	$(BIN)/oryx demo

test: $(VENV)/.ready  ## the suite, at most 12 minutes on two cores; most of it is compiling, so quickly
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-slow: $(VENV)/.ready  ## tests that train for longer
	$(BIN)/python -m pytest -m slow --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-gpu:  ## tests of kernels, with the Python that has JAX for this machine's GPU
	XLA_FLAGS=--xla_gpu_autotune_level=0 PYTHONPATH=src $(PYTHON) -m pytest -m gpu tests/ops

torture: $(VENV)/.ready  ## campaigns that try to lose runs and data, two at a time, within an hour
	$(BIN)/python -m tests.campaigns kill mutate archives disk writers --out torture-1.json & first=$$!; \
	$(BIN)/python -m tests.campaigns crashpoints --out torture-2.json; \
	second=$$?; wait $$first && exit $$second

check: $(VENV)/.ready  ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready  ## repair what can be repaired
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.docs-ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs-ready  ## the site, into site/: open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebook: $(VENV)/.ready  ## executes docs/tutorials/own-logs.py into the notebook beside it
	$(BIN)/python docs/hooks/notebooks.py

clean:
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
