# Each command sets up all it needs: a virtual environment with pinned packages, and the C runtime.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-targets lint bench clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Generated code once more, as for the other processors of this architecture that this one can stand for.
test-targets: $(STAMP)
	$(BIN)/python -m tests.on_targets -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/pip install --quiet -r benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.run

$(STAMP): pyproject.toml $(shell find runtime -name '*.[ch]' -o -name CMakeLists.txt 2>/dev/null)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf build $(STAMP)
