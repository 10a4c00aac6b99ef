# The index of commands. `make demo` and `make test` do all set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUNS ?= runs
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test verify docs setup lint bench table slow lock clean help

help:            ## this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# LIMIT=avx2 runs a command as on a processor without AVX-512; .ci/limit has all limits.
LIMIT ?= native
demo: $(STAMP)   ## set up, run the main scenarios, say where figures and reports are
	.ci/limit $(LIMIT) $(BIN)/phyloop run flmc-snr --out $(RUNS)/flmc-snr
	.ci/limit $(LIMIT) $(BIN)/phyloop run flmc-epsilon --out $(RUNS)/flmc-epsilon

test: $(STAMP)   ## set up and pass all tests; the last line sums up all parts
	.ci/limit $(LIMIT) $(BIN)/python .ci/tests all

slow: $(STAMP)   ## the full-size studies, minutes long
	$(BIN)/python -m pytest -m slow

verify: $(STAMP) ## every card with a known answer, minutes long
	$(BIN)/phyloop verify

docs: $(STAMP)   ## the documentation site, into build/docs
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/docs
	$(BIN)/python -m docs.generators.links build/docs

setup: $(STAMP)  ## the set-up alone

lint: $(STAMP)   ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks

bench: $(STAMP)  ## speed and memory as ratios against named peers
	for script in $$(grep -l __main__ benchmarks/*.py | grep -v -e round_costs -e same_numbers -e training_rivals); do $(BIN)/python $$script || exit 1; done

table: $(STAMP)  ## every chain in every engine and peer, what rounds cost, how cost grows
	$(BIN)/python benchmarks/all_chains.py

# Set-up is repeated only when what is installed would change. The project itself is installed editable.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "phyloop needs Python 3.11 to 3.13; set PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lock: $(STAMP)   ## write constraints.txt anew from pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --extra dev --extra docs --strip-extras --no-emit-index-url --no-emit-find-links --no-header \
	  --no-annotate --allow-unsafe --generate-hashes --output-file constraints.txt pyproject.toml

clean:           ## remove what set-up, docs and tests made
	rm -rf $(VENV) .venv-3.13 build docs/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
