# railbed. `make run` and `make test` set up what they need; see README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
APT_PACKAGES := openssh-server openssh-client iproute2 iputils-ping ethtool python3-venv

.PHONY: setup run test test-fast lint docs bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml tools/setup.sh
	@PYTHON="$(PYTHON)" APT_PACKAGES="$(APT_PACKAGES)" sh tools/setup.sh "$(VENV)"
	@touch $@

run: setup
	@$(BIN)/railbed check || [ $$? -eq 1 ]

test: setup lint
	@$(BIN)/pytest -n 2

test-fast: setup
	@$(BIN)/pytest -n 2 -m "not ssh"

lint: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: setup
	@$(BIN)/python -m tools.reference

bench: setup
	@$(BIN)/pip install --quiet --group bench
	@$(BIN)/python -m tools.bench_check

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
