# Two commands for a fresh clone: `make run` and `make test`. Python 3.11 or newer is all they need.

PYTHON ?= python3
# Each Python that is asked for has an environment of its own.
VENV ?= .venv$(addprefix -,$(notdir $(filter-out python3,$(PYTHON))))
PIP = $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
# uv takes a sixth of pip's time. Where it finds no packages (it does not read pip's settings), pip installs them.
# Little of what is installed is ever imported: Python compiles that when it is.
install = $(PIP) install uv && $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -e '$(1)' \
	|| $(PIP) install --no-compile -e '$(1)'
SOTTOVOCE = $(VENV)/bin/sottovoce

LOWEST = build/lowest
LOWEST_TESTS ?= tests/scenarios/cli tests/cases

# Folders of tests, and the tests beside them.
PIECES ?= protocol parties transports scenarios cases system hostile benchmarks browser coverage_gate packaging faces verifier test_*.py

.PHONY: run test test-all lowest bench docs

run: $(VENV)/.installed
	$(SOTTOVOCE) run quickstart --out runs/quickstart --html runs/quickstart/page.html

# All fast tests, or those of one file or folder: make test T=tests/protocol/wire
test: $(VENV)/.installed-test
	$(VENV)/bin/python -m pytest $(T)

# The fast tests and then the slow ones, in pieces; of the slow ones PIECES='system hostile' takes these alone.
test-all: test
	for piece in $(PIECES); do $(VENV)/bin/python -m pytest -m slow tests/$$piece || exit; done

# The command line's tests with the lowest versions that pyproject.toml declares, in an environment of their own.
# Old packages use what newer ones, installed with them, call deprecated, and leave files open.
lowest:
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip --quiet --disable-pip-version-check install uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e '.[test]'
	$(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning \
		-W ignore::pytest.PytestUnraisableExceptionWarning $(LOWEST_TESTS)

bench: $(VENV)/.installed
	$(VENV)/bin/python -m benchmarks

docs: $(VENV)/.installed-docs
	$(VENV)/bin/python -m sphinx -q -W docs build/docs
	@echo "written: build/docs/index.html"

# Editable, so that no stamp goes stale when the sources change: only pyproject.toml counts.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(call install,.)
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(call install,.[test])
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(call install,.[docs])
	@touch $(VENV)/.installed $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
