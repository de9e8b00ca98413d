# make demo       set everything up and compute the energy of water
# make test       the quick tests, on all cores, in programs that are quick to compile (docs/house.md says what is in them)
# make test-all   all tests, in programs compiled as everybody's are; make test-slow those that make test leaves out
#                 Goes on with what has not passed on this code. SHARD=3/8: the third of eight parts. AGAIN=1: from the start
# make report     what make test-all has found so far, on this code
# make lint       style and types
# make docs       the site, each page run, in build/site/index.html; make notebooks the lessons in build/notebooks
# make regression every functional against libxc (about an hour); writes data/regression
# make bench      water, benzene and caffeine against PySCF (under 40 minutes); make bench-full the larger molecules
#
# All of it happens in .venv. Another interpreter: make demo PYTHON=/path/to/python3.12

VENV := .venv
RUN := $(VENV)/bin
PYTHON ?=
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.12 python3.11 python3.13 python3.14)
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTEST := OMP_NUM_THREADS=1 $(RUN)/python -m pytest --numprocesses auto --dist worksteal
WHOLE := build/tests/whole.jsonl
PIP := $(RUN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow test-all report docs notebooks lint regression bench bench-full clean

demo: $(VENV)/.installed
	$(RUN)/dftfd run examples/water.xyz --xc pbe --basis def2-svp

test: $(VENV)/.installed-for-tests
	DFTFD_QUICK_PROGRAMS=1 $(PYTEST) --budgets --ledger=build/tests/quick.jsonl -m "not slow and not gpu and not benchmark"

test-slow: $(VENV)/.installed-for-tests
	$(PYTEST) -m "slow and not gpu and not benchmark"

test-all: $(VENV)/.installed-for-tests
	@$(if $(AGAIN),rm -f $(WHOLE))
	$(PYTEST) --ledger=$(WHOLE) --resume $(if $(SHARD),--shard=$(SHARD)) -m "not gpu and not benchmark"; \
	  status=$$?; $(RUN)/python -m tests.verification.suite $(WHOLE) && exit $$(( status == 5 ? 0 : status ))

report: $(VENV)/.installed-for-tests
	$(RUN)/python -m tests.verification.suite $(WHOLE)

docs: $(VENV)/.installed-for-docs
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build
	@echo "The site is build/site/index.html"

notebooks: $(VENV)/.installed-for-docs
	@mkdir -p build/notebooks
	for page in docs/lessons/*.md; do $(RUN)/jupytext --quiet --to ipynb $$page --output build/notebooks/$$(basename $$page .md).ipynb; done

lint: $(VENV)/.installed-for-tests
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy

regression: $(VENV)/.installed-for-tests
	$(RUN)/python -m tests.verification.regression

bench: $(VENV)/.installed-for-tests
	$(RUN)/python examples/benchmarks/cold_start.py --save
	$(RUN)/python examples/benchmarks/xc_build.py --suite --save
	$(RUN)/python examples/benchmarks/yardsticks.py --suite small --save

bench-full: $(VENV)/.installed-for-tests
	$(RUN)/python examples/benchmarks/scaling.py --save
	$(RUN)/python examples/benchmarks/yardsticks.py --suite triple --save

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(VENV)/bin/python:
	@for python in $(CANDIDATES); do \
	  if "$$python" -c '$(SUITABLE)' >/dev/null 2>&1; then \
	    echo "Creating $(VENV) with $$("$$python" --version)"; exec "$$python" -m venv $(VENV); \
	  fi; \
	done; \
	echo "dftfd needs Python 3.11 or newer with its venv module, but none of these has both:" >&2; \
	for python in $(CANDIDATES); do \
	  version=$$("$$python" --version 2>/dev/null) || version="not found"; \
	  if [ "$$version" != "not found" ] && ! "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	    version="$$version, no venv module"; \
	  fi; \
	  echo "  $$python: $$version" >&2; \
	done; \
	echo "Install one (Debian, Ubuntu: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing dftfd (a minute or two)"
	@$(PIP) --editable . && touch $@

$(VENV)/.installed-for-tests: $(VENV)/.installed
	@echo "Installing what the tests need"
	@$(PIP) --editable '.[dev]' && touch $@

$(VENV)/.installed-for-docs: $(VENV)/.installed
	@echo "Installing what the site needs"
	@$(PIP) --editable '.[docs,all]' && touch $@
