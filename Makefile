# The index of commands. `make demo` and `make test` do all set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
RUNS ?= runs
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test verify docs setup lint bench table slow lock clean help

help:            ## this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# LIMIT=avx2 runs a command as on a processor without AVX-512; .ci/limit has all limits.
LIMIT ?= native
demo: $(RUN)     ## set up, run the main scenarios, say where figures and reports are
	.ci/limit $(LIMIT) $(BIN)/phyloop run flmc-snr --out $(RUNS)/flmc-snr
	.ci/limit $(LIMIT) $(BIN)/phyloop run flmc-epsilon --out $(RUNS)/flmc-epsilon

test: $(STAMP)   ## set up and pass all tests; the last line sums up all parts
	.ci/limit $(LIMIT) $(BIN)/python .ci/tests all

slow: $(STAMP)   ## the full-size studies, minutes long
	$(BIN)/python -m pytest -m slow

verify: $(RUN)   ## every card with a known answer, minutes long
	$(BIN)/phyloop verify

docs: $(STAMP)   ## the documentation site, into build/docs
	$(BIN)/python -m sphinx -W --keep-going -j 2 -d build/doctrees docs build/docs
	$(BIN)/python -m docs.generators.links build/docs

setup: $(STAMP)  ## the set-up alone

lint: $(STAMP)   ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks

bench: $(STAMP)  ## speed and memory as ratios against named peers
	for script in $$(grep -l __main__ benchmarks/*.py | grep -v -e round_costs -e same_numbers -e training_rivals -e federated_); do $(BIN)/python $$script || exit 1; done

table: $(STAMP)  ## every chain in every engine and peer, what rounds cost, how cost grows
	$(BIN)/python benchmarks/all_chains.py

# Set-up is repeated only when what is installed would change. The project itself is installed editable. A run needs half
# of the packages; tests, lint and documentation add theirs. INSTALLER=pip leaves uv out.
PACKAGES := pyproject.toml constraints.txt .ci/install
define empty-environment
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "phyloop needs Python 3.11 to 3.13; set PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
endef
$(RUN): $(PACKAGES)
	$(empty-environment)
	.ci/install $(BIN)/python run
	touch $@
$(STAMP): $(PACKAGES)
	$(empty-environment)
	.ci/install $(BIN)/python all
	touch $(RUN) $@

lock: $(STAMP)   ## write constraints.txt anew from pyproject.toml
	.ci/lock $(BIN)/python

clean:           ## remove what set-up, docs and tests made
	rm -rf $(VENV) .venv-3.13 build docs/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
