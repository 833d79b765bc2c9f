# Every target does its own set-up: after a clone, one command is enough. `make help` lists them.
#
#   PYTHON=3.12         the interpreter to use (python3.12); for `make wheelhouse`, the one to collect wheels for
#   OFFLINE=wheelhouse  install from that folder of wheels instead of a package index
#   SYSTEM=1            keep the packages that the machine already has, its own torch above all
#   TORCH=1             let `make wheelhouse` collect torch, too

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?=
OFFLINE ?=
SYSTEM ?=
TORCH ?=

# Wheels are collected for another interpreter than the one that collects them.
INTERPRETER := python$(or $(if $(filter wheelhouse,$(MAKECMDGOALS)),,$(PYTHON)),3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TESTS := build/native-tests
PEERS := rllib sample_factory tianshou # whose dependencies clash with those of the others
COVERED := ahead block_set episodes faults_* foreign_* frozen line loop* model_sync parallel_* same_bits serial_collector \
	shared_memory
SOURCES = find csrc -name '*.cpp' -o -name '*.hpp'
INDEX := $(if $(OFFLINE),--no-index --find-links $(OFFLINE))

# With SYSTEM=1 some tools are the machine's own; the others are in the virtual environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)

# Folders are in the lists, so that a removed file renews the build as well.
CORE := $(shell find csrc -not -path 'csrc/tests*') CMakeLists.txt
STANDARD := $(shell find csrc/tests)

.PHONY: FORCE help setup test test-long faults coverage check format bench bench-peers docs train wheelhouse native-tests clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@sed -n '/^#   [A-Z]/ { s/^# //; p }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/native.stamp ## create .venv, install everything, build the native code

$(BIN)/python:
	@$(INTERPRETER) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Keisei needs Python 3.11 or newer as $(INTERPRETER); another one is named by PYTHON=3.12" >&2; exit 1; }
	@$(INTERPRETER) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || \
		{ echo "Python.h is missing, so the native code cannot be built: install the package python3-dev" >&2; exit 1; }
ifneq ($(SYSTEM),) # the interpreter may itself belong to a virtual environment, which --system-site-packages passes over
	@mkdir -p build
	@$(INTERPRETER) -c 'import site; print(*site.getsitepackages(), sep="\n")' > build/machine.pth
endif
	$(INTERPRETER) -m venv $(if $(SYSTEM),--system-site-packages) $(VENV) || { rm -rf $(VENV); exit 1; }
ifneq ($(SYSTEM),)
	@cp build/machine.pth $(VENV)/lib/python3.*/site-packages/
endif

$(VENV)/dependencies.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python .ci/requirements.py $(VENV) $(if $(SYSTEM),--system)
	$(PIP) install --quiet $(INDEX) -c $(VENV)/constraints.txt -r $(VENV)/requirements.txt
	@touch $@

# The installation knows the package's modules by name, so a new list of names renews it.
$(VENV)/modules.txt: FORCE | $(BIN)/python
	@find src -name '*.py' | sort > $@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }

$(VENV)/native.stamp: $(VENV)/dependencies.stamp $(VENV)/modules.txt $(CORE) pyproject.toml
	$(PIP) install --quiet --no-index --no-deps --no-build-isolation -c $(VENV)/constraints.txt --editable .
	@touch $@

native-tests: $(TESTS)/stamp

$(TESTS)/stamp: $(VENV)/dependencies.stamp $(CORE) $(STANDARD)
	@mkdir -p $(@D)
	cmake -S . -B $(TESTS) -G Ninja -DKEISEI_TESTS=ON > $(TESTS)/configure.log || { cat $(TESTS)/configure.log; exit 1; }
	cmake --build $(TESTS)
	@touch $@

test: setup native-tests ## run the tests
	python -m pytest

test-long: setup native-tests ## run the tests that take minutes
	python -m pytest -m "slow or long"

faults: setup ## run the tests that do harm: those that need root or strace are left out where that is missing
	python -m pytest -m faults

coverage: setup ## count the lines of worker processes and of collecting that their tests run
	rm -f .coverage .coverage.*
	coverage run -m pytest -q $(COVERED:%=tests/test_%.py)
	coverage combine --quiet
	coverage report --include='src/keisei/parallel/*,src/keisei/collect/*' --show-missing --fail-under=90

check: setup ## formatting, lint, types, the native stub and the import order
	ruff format --check .
	ruff check .
	python -m mypy
	$(SOURCES) | xargs clang-format --dry-run -Werror
	MYPYPATH=src python -m mypy.stubtest --ignore-disjoint-bases --allowlist .ci/stubtest-allowlist keisei.shogi._native
	python -m pytest tests/test_imports.py tests/test_native_stub.py

format: setup ## format everything
	ruff format .
	ruff check --fix .
	$(SOURCES) | xargs clang-format -i

bench: setup bench-peers ## measure the speed, side by side with peers
	keisei bench perft
	keisei bench environment
	keisei bench learning
	keisei bench connect-four

bench-peers: .venv-peers/stamp $(PEERS:%=.venv-peers-%/stamp) ## install the peers that `make bench` measures against

.venv-peers/stamp: benchmarks/peers.txt constraints.txt
	$(INTERPRETER) -m venv --clear .venv-peers
	.venv-peers/bin/python -m pip --disable-pip-version-check install --quiet $(INDEX) -c constraints.txt -r benchmarks/peers.txt
	@touch $@

.venv-peers-%/stamp: benchmarks/peers-%.txt
	$(INTERPRETER) -m venv --clear $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet $(INDEX) -r $<
	@touch $@

docs: setup ## write the pages that are made from the code
	$(BIN)/python -m keisei.config_reference docs/configuration.md

train: setup ## train on Shogi for about five minutes, on two cores
	$(BIN)/keisei train configs/shogi-quick.yaml

wheelhouse: $(BIN)/python ## collect wheels in wheelhouse/ for a machine without a package index
	$(BIN)/python .ci/requirements.py build/wheelhouse $(if $(TORCH),,--without torch)
	$(PIP) download --quiet --only-binary=:all: $(if $(PYTHON),--python-version $(PYTHON)) --dest wheelhouse \
		-c constraints.txt -r build/wheelhouse/requirements.txt
	@echo "on the other machine: make setup OFFLINE=wheelhouse$(if $(TORCH),, SYSTEM=1)"

clean: ## remove everything that was built or installed
	rm -rf build $(VENV) .venv-peers* dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
