# railbed. `make run` and `make test` set up what they need; see README.md and CONTRIBUTING.md.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USER_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
USER_LOCKS := build railbed train torch
QEMU_aarch64 := qemu-system-arm
QEMU_x86_64 := qemu-system-x86
# What tests need, labs of every kind included; `railbed lab up` names what it lacks.
TEST_PACKAGES := openssh-server openssh-client iproute2 iputils-ping ethtool nftables tcpdump iperf3 sockperf fio \
	$(QEMU_$(shell uname -m)) qemu-utils mmdebstrap kmod e2fsprogs debian-archive-keyring chromium tshark \
	slurmctld slurmd slurm-client munge sudo openipmi ipmitool

# The tests start Python hundreds of times: keep its byte code, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

# The steps of `make soak`, one after another: for releases, not for every commit.
SOAK_STEPS := soak-fuzz soak-x86 soak-tests

.PHONY: setup setup-dev run test test-fast lint docs lock release bench soak $(SOAK_STEPS) clean

# For those who use railbed, and for `make run`.
setup: $(USER_STAMP)

# For those who work on it: what tests, lint and documents need, too.
setup-dev: $(DEV_STAMP)

$(USER_STAMP): pyproject.toml $(USER_LOCKS:%=requirements/%.txt) tools/setup.sh tools/install_locked.sh \
		tools/lockfile.py tools/torch_build.py tools/build_hook.py tools/uplot.py
	@PYTHON="$(PYTHON)" sh tools/setup.sh "$(VENV)"
	@touch $@

$(DEV_STAMP): $(USER_STAMP) Makefile requirements/dev.txt tools/packages.sh tools/setup_dev.sh tools/prometheus.sh
	@sh tools/packages.sh $(TEST_PACKAGES)
	@sh tools/setup_dev.sh "$(VENV)"
	@touch $@

run: setup
	@$(BIN)/railbed train
	@$(BIN)/railbed report

# Seven processes keep two cores busy, also beside other programs, since tests with a lab often wait. Lint runs beside
# them; its output comes last, where it can be read, and its failure fails `make test` too.
test: setup-dev
	@output=$$(mktemp); $(MAKE) --no-print-directory lint >"$$output" 2>&1 & linting=$$!; \
	$(BIN)/pytest -n 7 --dist loadgroup --no-loadscope-reorder; tested=$$?; \
	wait $$linting; linted=$$?; echo "lint:"; cat "$$output"; rm "$$output"; \
	[ $$tested -eq 0 ] && [ $$linted -eq 0 ]

test-fast: setup-dev
	@$(BIN)/pytest -n 2 -m "not (whole or ssh or netns or vm or browser or prometheus or tshark)"

lint: setup-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

docs: setup-dev
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.recordings
	@$(BIN)/python -m tools.pictures

# Locks the newest versions that pyproject.toml admits, with the SHA-256 of their wheels; see CONTRIBUTING.md.
lock: setup-dev
	@sh tools/install_locked.sh $(VENV) lock
	@$(BIN)/python -m tools.lock

# Builds the source archive and the wheel into dist/, and proves them; see CONTRIBUTING.md.
release: setup-dev
	@$(BIN)/python -m tools.release

bench: setup-dev
	@sh tools/install_locked.sh $(VENV) bench
	@$(BIN)/python -m tools.bench_check
	@$(BIN)/python -m tools.bench_lab
	@$(BIN)/python -m tools.bench_scale
	@$(BIN)/python -m tools.bench_replay
	@$(BIN)/python -m tools.bench_configure
	@$(BIN)/python -m tools.bench_series
	@$(BIN)/python -m tools.bench_records
	@$(BIN)/python -m tools.bench_allreduce
	@$(BIN)/python -m tools.bench_tools
	@$(BIN)/python -m tools.bench_train_step
	@$(BIN)/python -m tools.bench_overhead
	@$(BIN)/python -m tools.bench_failures
	@$(BIN)/python -m tools.bench_slurm
	@$(BIN)/python -m tools.bench_watch
	@$(BIN)/python -m tools.bench_metrics
	@$(BIN)/python -m tools.bench_page
	@$(BIN)/python -m tools.bench_capture
	@$(BIN)/python -m tools.bench_capture --format pcapng --repeats 1

soak: $(SOAK_STEPS)

soak-fuzz: setup-dev
	@$(BIN)/python -m tools.soak_fuzz

soak-x86: setup-dev
	@sh tools/packages.sh $(QEMU_x86_64) $(QEMU_aarch64)
	@$(BIN)/python -m tools.soak_x86

# The tests marked `soak`: random faults, every bench experiment and every collective on emulated machines.
soak-tests: setup-dev
	@sh tools/packages.sh cmake g++ make
	@echo "soak-tests takes about an hour on two cores"
	@$(BIN)/pytest --soak -n 3 --dist loadgroup --no-loadscope-reorder --durations=0 --durations-min=1

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
