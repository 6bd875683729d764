# Works with GNU Make 3.81, which is what macOS has.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILE := $(BIN)/uv --quiet pip compile pyproject.toml --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command "make lock"

export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup demo unit test smoke lint lock release bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## make .venv with the locked dependencies and the project in it

$(STAMP): pyproject.toml requirements/dev.lock requirements/install.sh
	@echo "Setting up $(VENV) ..."
	@sh requirements/install.sh
	@touch $@

demo: $(STAMP) ## launch the example experiment on this machine
	$(BIN)/xmcloud launch examples/digits/launch.py
	@echo "See it again: $(BIN)/xmcloud list; stop what was started: $(BIN)/xmcloud down"

unit: lint ## run every check and the unit tests: about a minute
	$(BIN)/pytest tests/unit

test: lint ## run every check and every test
	$(BIN)/pytest

smoke: $(STAMP) ## try a deployment: that of XMCLOUD_URL, else what infra/terraform made
	$(BIN)/python -m xmcloud.cli.smoke

lint: $(STAMP) ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# import-linter sees one portion of the package, unless it was imported before.
	$(BIN)/python -c 'import xmcloud, importlinter.cli as linter; linter.lint_imports_command()' --no-logo

lock: $(STAMP) ## lock the dependencies again; UPGRADE=--upgrade takes newer versions
	$(COMPILE) $(UPGRADE) --all-extras --group dev --output-file requirements/dev.lock
	$(COMPILE) --extra gcp --extra kubernetes --extra otel --constraint requirements/dev.lock --output-file functions/requirements.txt

release: $(STAMP) ## keep this version's wheel and snapshot, which the next is tested against
	rm -rf dist && $(BIN)/uv build --quiet --wheel --out-dir dist
	rm -f tests/compatibility/xmcloud-*.whl && cp dist/xmcloud-*.whl tests/compatibility/
	$(BIN)/python -m tests.compatibility

bench: $(STAMP) ## measure the control plane on this machine
	$(BIN)/python -m benchmarks

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find functions cli worker tests -name __pycache__ -type d -prune -exec rm -rf {} +
