# `make run` and `make test` do all the set-up themselves. FULL=1 runs the long form of every lecture; LIMIT=540 ends
# `make receipt` after so many seconds, and the next call goes on; TOGETHER=16 has it run so many notebooks at a time.
PYTHON ?= python3
LAB ?=
BIN := .venv/bin
READY := .venv/.ready
LOOK := $(CURDIR)/utils/course/jupyter/custom
# Three at a time, on two cores: many tests wait, for a process that hangs or for one that is killed.
TESTS := -n 3 --dist worksteal --nbmake solutions tests

.PHONY: run help site publish test affected rehearse seeds test-browser quick torture check lab release tidy badges figures image receipt wheels

run: $(READY)            ## execute the course, print the ledger, write build/
	$(BIN)/python -m utils.course run $(if $(FULL),--full)

help:                    ## these lines
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## */\t/' | expand -t 14

site: $(READY)           ## the course as pages, build/site/index.html; runs it first where it has changed
	$(BIN)/python -m utils.course site

publish: site            ## build/publish/: pages and students' archive for any static host; REPO=owner/name for Colab
	$(BIN)/python -m utils.course publish $(if $(REPO),--repo "$(REPO)")

test: $(READY)           ## what every change must hold beside `make run`: tests, every lab's solution; about twenty minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(TESTS) -m "not browser and not nightly"

affected: $(READY)       ## what the change at hand reaches, nearest first, up to the first red; BASE=main for a branch
	OMP_NUM_THREADS=1 $(BIN)/python -m utils.course affected $(if $(BASE),--base "$(BASE)")

quick: $(READY)          ## units and static checks, under two minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow and not browser and not nightly" tests

rehearse: $(READY)       ## on a stand-in GPU: the loop, then every lecture and solution; which proofs run there, and what is red
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/test_standin_gpu.py
	OMP_NUM_THREADS=1 $(BIN)/python -m utils.course rehearse

seeds: $(READY)          ## every lecture and solution at other seeds, drawn by the date: what is red
	OMP_NUM_THREADS=1 $(BIN)/python -m utils.course seeds

test-browser: site       ## JupyterLab, the calculators and the site in a Chromium; ALL=1 opens every notebook, SHOTS=1 keeps pictures
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r tests/browser/requirements.txt
	$(if $(SHOTS),SHOTS=1) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "browser$(if $(ALL),, and not nightly)" tests/browser

torture: $(READY)        ## the promises of the loop, under attack: a table
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture

check: $(READY)          ## lint, format, every notebook, then every test but those of a browser
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(TESTS) notebooks

lab: $(READY)            ## open JupyterLab at the README, the index of it all
	JUPYTER_CONFIG_PATH="$(CURDIR)/utils/course/jupyter:$$JUPYTER_CONFIG_PATH" $(BIN)/jupyter lab --custom-css --ServerApp.tornado_settings="{'static_custom_path':['$(LOOK)']}" --LabApp.default_url=/lab/tree/README.md $(LAB)

receipt: $(READY)        ## run everything on the GPU here, keep what it verified in tests/receipts/
	$(BIN)/python -m utils.course receipt $(if $(FULL),--full) $(if $(LIMIT),--limit $(LIMIT)) \
	    $(if $(TOGETHER),--together --jobs $(TOGETHER))

wheels:                  ## what a machine without a network lacks: make wheels PYTHON=3.12
	$(MAKE) $(READY) PYTHON=python3
	$(BIN)/python -m utils.course wheels --python $(PYTHON)

release: $(READY)        ## make labs/ from solutions/
	$(BIN)/python -m utils.course release

badges: $(READY)         ## REPO=owner/name: links to Colab everywhere; REPO= removes them; neither: keeps what is there
	$(BIN)/python -m utils.course badges $(if $(findstring command,$(origin REPO)),--repo "$(REPO)")

figures: $(READY)        ## the README's pictures, in notebooks/figures/
	MPLBACKEND=Agg OMP_NUM_THREADS=1 $(BIN)/python -m utils.course figures

image:                   ## a Docker image of this checkout, which knows its commit
	docker build --build-arg COMMIT=$$(git describe --always --abbrev=40 --dirty --exclude='*') --tag honest-training-loop .

tidy: $(READY)           ## notebooks in one format, and all that is written: links, minutes, counts, tables of the READMEs
	$(BIN)/python -m utils.course tidy
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) utils/versions.py
	@echo "Once: pip installs PyTorch, JupyterLab and the rest into .venv. This takes a few minutes, 2 GB of disk, 7 with CUDA."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -e .
	@touch $@
