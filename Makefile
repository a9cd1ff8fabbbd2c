# `make demo` and `make test` do all set-up themselves. VENV=DIR shares one environment between checkouts.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: demo test test-all lint install format browser

demo: install
	$(BIN)/cacr demo

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -m "not slow"

test-all: lint
	$(BIN)/python -m pytest

# For the tests of the report page, where no Chromium is installed already; needs the network.
browser: install
	@command -v chromium || command -v chromium-browser || command -v google-chrome || $(BIN)/playwright install chromium

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Reinstalls when pyproject.toml changed, or when a shared environment last served another checkout.
install:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if [ "$$(cat $(VENV)/.cacr-checkout 2>/dev/null)" != "$(CURDIR)" ] || [ pyproject.toml -nt $(VENV)/.cacr-checkout ]; then \
	  echo "installing into $(VENV)"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' && echo "$(CURDIR)" > $(VENV)/.cacr-checkout; \
	fi
