# Regimes: the two commands are `make book` and `make test`. Each sets up .venv by itself when it is missing or stale.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
# Another way to get PyTorch, e.g. one of its GPU builds, goes here: make book INSTALL_TORCH="..."
INSTALL_TORCH ?= $(PIP) -r requirements/torch.txt

.PHONY: help book test check-site setup browser lint format benchmark lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

book: .venv/ready  ## execute the stale chapters and build the site into _build/html
	$(BIN)/regimes build

test: .venv/ready browser lint  ## every test: library, press, chapters with quick settings, pages in a browser
	$(BIN)/python -m pytest

check-site: .venv/ready browser  ## the browser's tests on the published site in _build/html
	REGIMES_SITE=_build/html $(BIN)/python -m pytest tests/browser

setup: .venv/ready  ## only the virtual environment

.venv/ready: pyproject.toml requirements/lock.txt requirements/torch.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v < (3, 14) or sys.exit(f"Regimes needs Python 3.11, 3.12 or 3.13; {sys.executable} is {v[0]}.{v[1]}. Name another: make PYTHON=python3.12")'
	@echo "Setting up .venv (some minutes, once) ..."
	@$(PYTHON) -m venv --clear .venv || { echo "No virtual environment could be made. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PIP) --require-hashes -r requirements/lock.txt
	$(INSTALL_TORCH)
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

browser:
	@sh tests/browser/ensure_chromium.sh

lint: .venv/ready  ## style and format, notebooks included
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/ready  ## mend what lint can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: .venv/ready  ## speed figures, side by side in one run (minutes)
	$(BIN)/python tests/benchmarks/bench_diagonal.py
	$(BIN)/python tests/benchmarks/bench_transfer.py

lock: .venv/ready  ## pin the newest admitted versions anew
	$(PIP) uv
	$(BIN)/uv pip compile pyproject.toml requirements/torch-needs.in --all-extras --upgrade \
	  --override requirements/overrides.txt --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --custom-compile-command "make lock" -q -o requirements/lock.txt

clean:  ## remove what was built, the run store included; keeps .venv
	rm -rf _build
