# `make run` and `make test` do all the set-up themselves. FULL=1 runs the long form of every lecture.
PYTHON ?= python3
LAB ?=
BIN := .venv/bin
READY := .venv/.ready

.PHONY: run test quick torture check lab release tidy

run: $(READY)            ## execute the course, print the ledger, write build/
	$(BIN)/python -m utils.course run $(if $(FULL),--full)

test: $(READY)           ## all tests, every lecture and every lab's solution included
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --nbmake notebooks solutions tests

quick: $(READY)          ## units and static checks, under two minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow" tests

torture: $(READY)        ## the promises of the loop, under attack: a table
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture

check: $(READY)          ## lint, format, then everything
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(MAKE) test

lab: $(READY)            ## open JupyterLab
	$(BIN)/jupyter lab $(LAB)

release: $(READY)        ## make labs/ from solutions/
	$(BIN)/python -m utils.course release

tidy: $(READY)           ## stable cell ids, no outputs, one format
	$(BIN)/python -m utils.course tidy notebooks solutions
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'Python 3.11 or newer is needed, this is ' + sys.version.split()[0] + ': call make PYTHON=python3.12, say')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -e .
	touch $@
