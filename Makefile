# All commands for developers. `make demo` and `make test` need Python 3.11+ and make, and set up the rest themselves.
# POSIX sh only; no target touches the warehouse's data.

.DEFAULT_GOAL := help
.NOTPARALLEL: # the targets share one environment, and their output is read by people
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first of these that is new enough; `make PYTHON=/path/to/python3.12 …` sets another one.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
ARGS ?=
N ?= 100000
# Test processes: one more than two cores, since some tests only wait.
WORKERS ?= 3

VENV := .venv
BIN := $(VENV)/bin
NEEDS := pyproject.toml constraints.txt

# A machine may forbid compiled files; then each process of a test or demo would compile all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

# uv installs in seconds what takes pip a minute, and compares each file with its digest in constraints.txt. The
# environment gets one if the machine has none; where that fails, or uv cannot reach the index that pip is set up for,
# pip does it, by the versions alone: it takes no digests beside an editable project.
UV := $(shell command -v uv 2>/dev/null)
ifdef UV
MAKE_VENV = uv venv --quiet --clear --python "$$found" $(VENV)
else
PIP = sed -n '/^[^ ]/s/ *\\$$//p' constraints.txt > $(VENV)/versions.txt && \
	  $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --constraint $(VENV)/versions.txt
UV := $(BIN)/uv
MAKE_VENV = "$$found" -m venv --clear $(VENV) || { rm -rf $(VENV); \
	  echo "$$found cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	{ $(PIP) --upgrade 'pip>=25.1' && $(PIP) uv; } 2>/dev/null || true # older ones know no dependency groups
OR_PIP = 2>/dev/null || { $(PIP) $(WHAT); }
endif
INSTALL = VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install -qq --constraint constraints.txt --build-constraint constraints.txt $(WHAT) $(OR_PIP)

PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

CHROMIUMS := chromium chromium-browser google-chrome google-chrome-stable

##@ The two commands

.PHONY: demo
demo: $(VENV)/.runtime ## Sync two weeks of a made-up school and show the result
	@$(BIN)/rollbook demo $(ARGS)

.PHONY: test
test: $(VENV)/.dev ## Run the everyday tests, three minutes (ARGS="-k walk" for some)
	@$(PYTEST) -m "(not nights or story) and not slow and not weekly" $(ARGS)

##@ Day to day

.PHONY: serve
serve: $(VENV)/.runtime ## Open the Dagster UI and run the nightly schedule
	@$(BIN)/rollbook serve $(ARGS)

.PHONY: notebook
notebook: $(VENV)/.jupyter ## Open the six questions of warehouse/explore.ipynb in Jupyter
	@$(BIN)/jupyter lab warehouse/explore.ipynb $(ARGS)

.PHONY: test-nights
test-nights: $(VENV)/.dev ## Run the other tests that play nights, ten minutes
	@$(PYTEST) -m "nights and not story and not slow and not weekly" $(ARGS)

.PHONY: test-slow
test-slow: $(VENV)/.dev chromium ## Run the long tests: kills, Dagster's runs, districts, browsers
	@$(PYTEST) -m "slow and not weekly" $(ARGS)

.PHONY: test-long
test-long: $(VENV)/.dev chromium ## Run test-nights and test-slow together: what waits lets the others run
	@$(PYTEST) -m "(slow or nights and not story) and not weekly" $(ARGS)

.PHONY: test-weekly
test-weekly: $(VENV)/.dev chromium java ## Run what takes longest: a year of a school, more lives, every kill, other tools
	@$(PYTEST) -m weekly $(ARGS)

.PHONY: test-newest
test-newest: $(VENV)/.dev ## Try the newest versions that the bounds allow, and httpx's successor
	@$(BIN)/python -m tests.newest

.PHONY: check
check: lint test test-long ## Everything before a merge: the static checks, and all tests but the weekly ones

.PHONY: campaign
campaign: $(VENV)/.dev ## Simulate N nights (1000) of new seeds against a plain model
	@$(BIN)/python -m tests.campaign --total $(or $(N),1000) $(ARGS)

.PHONY: lint
lint: check-format check-lint check-types check-imports check-sql ## The static checks: format, lint, types, imports, SQL

.PHONY: check-format check-lint check-types check-imports check-sql
check-format: $(VENV)/.dev
	@$(BIN)/ruff format --check --quiet . || { echo 'Format differs: run `make format`.' >&2; exit 1; }
check-lint: $(VENV)/.dev
	@$(BIN)/ruff check --quiet .
check-types: $(VENV)/.dev
	@$(BIN)/mypy --no-error-summary
check-imports: $(VENV)/.dev
	@$(BIN)/lint-imports --no-logo
check-sql: $(VENV)/.dev
	@$(BIN)/python -m tests.lint_sql

.PHONY: format
format: $(VENV)/.dev ## Format the code
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format --quiet .

.PHONY: docs
docs: $(VENV)/.dev ## Write what documents take from the code: the data dictionary, the settings
	@$(BIN)/rollbook docs
	@PYTHONPATH=pipelines $(BIN)/python -m tests.settings_documents

.PHONY: bench
bench: $(VENV)/.dev ## Measure the nights against a bare walk, and the views (N=100000 students)
	@$(BIN)/python -m tests.bench --students $(N) $(ARGS)

.PHONY: bench-readers
bench-readers: $(VENV)/.dev ## Measure how long readers of explore wait (ARGS="--readers 50 --night")
	@$(BIN)/python -m tests.bench.readers $(ARGS)

.PHONY: bench-district
bench-district: $(VENV)/.dev ## Measure a district's nights (ARGS="--institutions 200 --students 500")
	@$(BIN)/python -m tests.bench.nights_of_many $(ARGS)

.PHONY: bench-watch
bench-watch: $(VENV)/.dev ## Measure whom the reasons to watch find in made-up school years (ARGS="--seeds 1 --twins")
	@$(BIN)/python -m tests.bench.watch $(ARGS)

.PHONY: constraints
constraints: $(VENV)/.dev ## Pin the newest compatible versions (needs uv)
	@uv pip compile --quiet --universal --upgrade --generate-hashes --no-annotate --no-header pyproject.toml --group dev --extra all -o constraints.txt

.PHONY: released
released: $(VENV)/.dev ## Keep a warehouse of this version, which every later one has to open (before a release)
	@$(BIN)/python -m tests.support.warehouses.released

.PHONY: release-check
release-check: $(VENV)/.dev ## Check that this commit can be released, and build it into dist/
	@$(BIN)/python -m tests.release

.PHONY: clean
clean: ## Remove the environments and caches; warehouse/ and dagster_home/ stay
	@rm -rf $(VENV) .venv-contract .venv-dbt .venv-httpfs .venv-s3 .venv-spark .venv-release build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	@find pipelines tests -type d -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# The environment. Each stamp file is written last, so an interrupted install starts over.

$(VENV)/.created:
	@for python in $(PYTHON); do \
	  found=$$($$python -c 'import sys; print(sys.executable if sys.version_info >= (3, 11) else "")' 2>/dev/null) || continue; \
	  [ -z "$$found" ] || break; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'Rollbook needs Python 3.11 or newer; none among: $(PYTHON).' >&2; \
	  echo 'Install one, or say where it is: make PYTHON=/path/to/python3.12 …' >&2; exit 1; \
	fi; \
	echo 'Setting up $(VENV) (once; a minute if uv cannot be had) …'; \
	$(MAKE_VENV)
	@touch $@

# What `make demo` needs.
$(VENV)/.runtime: WHAT := --editable '.[excel,pdf,mirror]'
$(VENV)/.runtime: $(NEEDS) | $(VENV)/.created
	@$(INSTALL)
	@touch $@

# What `make notebook` needs besides.
$(VENV)/.jupyter: WHAT := jupyterlab
$(VENV)/.jupyter: $(VENV)/.runtime
	@$(INSTALL)
	@touch $@

# What the checks and tests need; it includes the runtime.
$(VENV)/.dev: WHAT := --editable '.[all]' --group dev
$(VENV)/.dev: $(NEEDS) | $(VENV)/.created
	@$(INSTALL)
	@touch $(VENV)/.runtime $@

# Some weekly tests run real Spark, which needs Java. Installed or skipped as Chromium is, below.
.PHONY: java
java:
	@command -v java >/dev/null 2>&1 && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo 'Installing Java for the tests of Spark (once) …'; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless; } \
	    >/dev/null 2>&1 || echo 'Java could not be installed with apt-get.' >&2; \
	else \
	  echo 'No Java here: the tests of Spark will be skipped. Install the package "openjdk-17-jre-headless" to run them.' >&2; \
	fi

# The browser tests need a Chromium. As root it is installed with apt-get; otherwise they are skipped with a message (in
# CI they fail).
.PHONY: chromium
chromium:
	@for name in $(CHROMIUMS); do command -v $$name >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo 'Installing Chromium for the browser tests (once) …'; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
	    >/dev/null 2>&1 || echo 'Chromium could not be installed with apt-get.' >&2; \
	else \
	  echo 'No Chromium here: the browser tests will be skipped. Install the package "chromium" to run them.' >&2; \
	fi
