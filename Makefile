# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TESTS  := $(VENV)/.tests

.PHONY: demo test quick lint types bench docs reproduce clean

demo: $(STAMP)
	$(BIN)/snapimpute demo --out demo-output

# Two processes with one BLAS thread each: faster than one process with two.
test: $(TESTS) lint types
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# What an edit is likely to break, in less than a minute: lint, types, and the tests without the marks slow and movielens.
# Left to `make test`: solvers one by one, other backends and processes, documentation, reproduction, examples in docstrings.
quick: $(TESTS) lint types
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests -m "not slow and not movielens" -q --numprocesses 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TESTS)
	$(BIN)/mypy

# The site, in build/site; every warning is an error. The tests build it, too.
docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/site
	@echo "build/site/index.html"

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

# The paper's evaluation, in full: some hours. `make reproduce QUICK=--quick` takes minutes.
reproduce: $(STAMP)
	$(BIN)/python -m reproduction all $(QUICK) --out reproduce-output

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[app,excel,sdp,reproduction,docs,test]"
	@touch $@

# What only the tests need. A torch for the CPU is enough for them; without it the tests of its backend are skipped.
$(TESTS): $(STAMP)
	$(BIN)/python -m pip install --quiet "torch==2.13.0" "triton>=3.6" \
	  || echo "torch could not be installed: the tests of its backend will be skipped"
	@touch $@

clean:
	rm -rf $(VENV) demo-output reproduce-output dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
