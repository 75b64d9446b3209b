# railbed. `make run` and `make test` set up what they need; see README.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
QEMU_aarch64 := qemu-system-arm
QEMU_x86_64 := qemu-system-x86
APT_PACKAGES := openssh-server openssh-client iproute2 iputils-ping ethtool python3-venv nftables iperf3 sockperf fio \
	$(QEMU_$(shell uname -m)) qemu-utils mmdebstrap kmod e2fsprogs debian-archive-keyring chromium

# The tests start Python hundreds of times: what was compiled is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

# What `make soak` does, one after another: hours that a release is worth, and a commit is not.
SOAK_STEPS := soak-fuzz soak-x86

.PHONY: setup run test test-fast lint docs bench soak $(SOAK_STEPS) clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt Makefile tools/setup.sh
	@PYTHON="$(PYTHON)" APT_PACKAGES="$(APT_PACKAGES)" sh tools/setup.sh "$(VENV)"
	@touch $@

run: setup
	@$(BIN)/railbed train
	@$(BIN)/railbed report

test: setup lint
	@$(BIN)/pytest -n 2 --dist loadgroup

test-fast: setup
	@RAILBED_FAST_TESTS=1 $(BIN)/pytest -n 2 -m "not (whole or ssh or netns or vm or browser)"

lint: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: setup
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.pictures

bench: setup
	@$(BIN)/pip install --quiet --group bench
	@$(BIN)/python -m tools.bench_check
	@$(BIN)/python -m tools.bench_lab
	@$(BIN)/python -m tools.bench_scale
	@$(BIN)/python -m tools.bench_allreduce
	@$(BIN)/python -m tools.bench_tools
	@$(BIN)/python -m tools.bench_train_step
	@$(BIN)/python -m tools.bench_overhead
	@$(BIN)/python -m tools.bench_failures

soak: $(SOAK_STEPS)

soak-fuzz: setup
	@$(BIN)/python -m tools.soak_fuzz

soak-x86: setup
	@PYTHON="$(PYTHON)" APT_PACKAGES="$(QEMU_x86_64) $(QEMU_aarch64)" sh tools/setup.sh "$(VENV)"
	@$(BIN)/python -m tools.soak_x86

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
