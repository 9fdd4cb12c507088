# `make demo` and `make test` are all that is needed on a fresh clone: Python ≥ 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-browser lint bench coverage data clean

demo: $(VENV)/.core
	$(BIN)/lawscope demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

test-browser: $(VENV)/.dev
	$(BIN)/python -m pytest -m browser

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Ratios to named peers in one run; the table goes to results/bench.json.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# How often the 95 % intervals hold the population value; goes to results/coverage.json.
coverage: $(VENV)/.dev
	$(BIN)/python -m benchmarks.coverage

# The embedded Fashion-MNIST at 10×10, rebuilt from the canonical files.
data: $(VENV)/.core
	$(BIN)/python scripts/embed_fashion_mnist.py

# The stamps are newer than what they were installed from, so a second run starts at once.
$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing lawscope into $(VENV) (a few minutes, once)"
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing what the tests need into $(VENV)"
	$(PIP) -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV)
