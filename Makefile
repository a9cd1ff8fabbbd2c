# `make demo` and `make test` do all set-up themselves. VENV=DIR shares one environment between checkouts;
# EXTRAS=dev,bench installs the peers too, with which some tests compare.
VENV ?= .venv
PYTHON ?= python3
EXTRAS ?= dev
BIN := $(VENV)/bin

# One process per core. `worksteal` starts with tests in their order, so that most fixtures of a module are made once,
# and lets an idle process take tests from a busy one: the longest module does not decide when all is done.
# Bytecode is kept even where the environment says otherwise: every process that a test starts would compile the package.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal --durations=15

.PHONY: demo gates test test-slow test-all test-portable lint install format browser docs tutorials

demo: install
	$(BIN)/cacr demo

# Short runs on digits that must leave encoders far better than their starts.
gates: install
	$(BIN)/python tests/gates.py

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	MYPY_NUM_WORKERS=auto $(BIN)/mypy

test: lint
	$(PYTEST) -m "not slow"

test-slow: install
	$(PYTEST) -m slow

test-all: lint
	$(PYTEST)

# What trains, once for each instruction set and number of threads, and on a busy machine; FACTORS="busy OMP" chooses.
test-portable: install
	$(BIN)/python tests/portable.py $(FACTORS)

# The site, in docs/_build/html; a warning is an error. Its packages are installed where they are missing.
docs: install
	@$(BIN)/python -c "import myst_parser, pydata_sphinx_theme, sphinx_copybutton" 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -j auto -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Runs every block of the tutorials and puts what it printed on their pages: about 40 minutes. NAMES="cluster" chooses pages,
# DATA is a folder with data sets for those that use some.
tutorials: install
	@$(BIN)/python -c "import pytorch_lightning" 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/python docs/tutorials/run.py $(NAMES) $(if $(DATA),--data $(DATA))

# For the tests of the report page, where no Chromium is installed already; needs the network.
browser: install
	@command -v chromium || command -v chromium-browser || command -v google-chrome || command -v google-chrome-stable \
	  || $(BIN)/playwright install chromium

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Reinstalls when pyproject.toml or EXTRAS changed, or when a shared environment last served another checkout.
install:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if [ "$$(cat $(VENV)/.cacr-checkout 2>/dev/null)" != "$(CURDIR)[$(EXTRAS)]" ] || [ pyproject.toml -nt $(VENV)/.cacr-checkout ]; then \
	  echo "installing into $(VENV)"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]' && echo "$(CURDIR)[$(EXTRAS)]" > $(VENV)/.cacr-checkout; \
	fi
