# Everything a developer or CI runs. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
UV_VERSION := 0.13.9
# uv uses the machine's Python and never fetches one.
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
# Tests start some thousand Python processes. Where the environment keeps Python from writing compiled
# modules, each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/bytecode

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z2 -]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 28

# --- set up

.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv==$(UV_VERSION)'

.venv/.synced: .uv/bin/uv pyproject.toml uv.lock
	.uv/bin/uv sync --quiet --frozen --all-extras --python .uv/bin/python
	@touch $@

.PHONY: venv preflight-demo preflight-test
venv: .venv/.synced ## the virtual environment .venv, from uv.lock

preflight-demo:
	@$(PYTHON) -m kais_cluster.preflight demo

preflight-test:
	@$(PYTHON) -m kais_cluster.preflight test

# --- check

.PHONY: check quick format unit contract npm cluster e2e test soak
check: venv ## formatting, lint, types, import contracts, prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.prose

quick: check ## check, unit tests and the contract of the default store: minutes
	$(BIN)/python scripts/run_tests.py unit store

format: venv ## format and fix what can be fixed by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

unit contract npm cluster e2e: venv ## one tier of tests
	$(BIN)/python scripts/run_tests.py $@

test: preflight-test venv ## all tiers of tests, one line each at the end
	$(BIN)/python scripts/run_tests.py

soak: preflight-test venv ## kills, power cuts and isolation at length: hours
	$(BIN)/python -m kais_cluster build --no-node
	$(BIN)/python scripts/soak.py $(SOAK)

.PHONY: find-module
find-module: venv ## the modules for a term of the field: make find-module TERMS="rate limit"
	@$(BIN)/python -m scripts.find_module $(TERMS)

# --- make

.PHONY: crds client reference binaries images charts release
crds: venv ## crds/*.yaml from the models in kais/resources
	$(BIN)/python -m kais.crds
	$(BIN)/python -m kais.admission

client: venv ## knowledge_client/sync_client.py from async_client.py
	$(BIN)/python -m scripts.generate_sync_client

reference: venv ## the generated pages of docs/reference, from the models and the commands
	$(BIN)/python -m kais.reference_pages
	$(BIN)/python -m scripts.cli_reference
	$(BIN)/python -m scripts.completion_commands

binaries: ## the pinned Kubernetes binaries (about 15 minutes the first time)
	$(PYTHON) -m kais_cluster build

images: venv ## base image, our images, and load them into the cluster that is up
	$(BIN)/python -m kais_cluster images

charts: venv ## install or upgrade the charts in the cluster that is up
	$(BIN)/python -m kais_cluster charts

release: ## publish images and charts: make release REGISTRY=registry.example/kais KEY=cosign.key
	$(PYTHON) -m scripts.release '$(REGISTRY)' $(if $(KEY),--key '$(KEY)') $(RELEASE)

# --- run

.PHONY: demo demo-down bench
demo: preflight-demo venv ## the main job, end to end, on a real cluster, and an agent with a scripted model
	$(BIN)/python -m kais_cluster.demo up
	$(BIN)/python examples/namespace-doctor/demo.py
	@$(BIN)/python -m kais_cluster.demo next

demo-down: ## remove cluster, images, state and network of the demo
	$(PYTHON) -m kais_cluster.demo down

bench: venv ## the figures of docs/benchmarks.md on this machine
	$(BIN)/python -m kais_cluster build --no-node
	$(BIN)/python -m bench
