# Two commands on a fresh machine do everything: `make reproduce` and `make test`.

SCALE   ?= demo
ARGS    ?=
MINUTES ?= 25
PYTHON  ?= python3
TORCH   ?= torch==2.13.0
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
REPRO   := $(BIN)/repro
# Modules are compiled when first imported; do not compile those that are never imported.
PIP     := pip install --quiet --disable-pip-version-check --no-compile
# If the shell sets this, every process recompiles the modules that it imports: 7 s each.
unexport PYTHONDONTWRITEBYTECODE
ARTEFACTS := $(sort $(patsubst experiments/%.yaml,%,$(filter-out %/claims.yaml,$(wildcard experiments/*/*.yaml))))
PAPERS    := $(addprefix reproduce-,$(sort $(patsubst %/,%,$(dir $(ARTEFACTS)))))
TARGETS   := $(addprefix reproduce-,$(subst /,-,$(ARTEFACTS)))

.DEFAULT_GOAL := help
.PHONY: help install reproduce report test test-processors test-card test-cluster lint types tests format bench bench-startup numbers docs pages gpu clean $(PAPERS) $(TARGETS)

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 28
	@echo
	@echo "One artefact, at SCALE=demo|small|subset|full (further settings in ARGS):"
	@for file in $(sort $(filter-out %/claims.yaml,$(wildcard experiments/*/*.yaml))); do \
	  name=$${file#experiments/}; name=$${name%.yaml}; \
	  title=$$(sed -n 's/^title: *"\(.*\)"/\1/p' $$file); \
	  printf 'reproduce-%s\t%s\n' "$$(echo $$name | tr / -)" "$$title"; done | expand -t 40

install: $(STAMP) ## Make .venv and install everything into it

# torch comes first and alone: a CPU wheel at hand then keeps every CUDA build away.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m $(PIP) $(TORCH)
	$(BIN)/python -m $(PIP) -c constraints.txt -e '.[dev]'
	touch $@

reproduce: $(STAMP) ## Run every experiment that exists at SCALE, write results/SCALE/report.html
	$(REPRO) reproduce scale=$(SCALE) --yes $(ARGS)

$(PAPERS) $(TARGETS): reproduce-%: $(STAMP)  # a paper, or one artefact
	$(REPRO) reproduce $(subst -,/,$*) scale=$(SCALE) $(ARGS)

reproduce-%:  # any other name
	@echo "no artefact '$*'; there are $(or $(filter reproduce-$(firstword $(subst -, ,$*))-%,$(TARGETS)),$(PAPERS))" >&2; exit 2

report: $(STAMP) ## Rebuild tables, figures and report.html from the records
	$(REPRO) report scale=$(SCALE)

test: $(STAMP) ## Install, then lint, type check and test
	$(MAKE) --no-print-directory -j 2 lint types tests

lint: $(STAMP) ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Check types
	$(BIN)/mypy

tests: $(STAMP) ## Run the test suite
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Sums in vectors of another width differ in their last bits, and so do trajectories.
test-processors: $(STAMP) ## Test mappings, structures, losses and solvers with the instructions of other processors
	for set in default avx2; do ATEN_CPU_CAPABILITY=$$set $(BIN)/python -m pytest -n auto --dist loadfile \
	  --no-loadscope-reorder tests/mappings tests/structures tests/losses tests/laws \
	  tests/tasks/test_published_*.py || exit 1; done

# xdist would import PyTorch before the plugin.
test-card: $(STAMP) ## Run the tests of CUDA on a card simulated on the processor (needs g++, some 30 minutes)
	PYTHONPATH=tests $(BIN)/python -m pytest -n 0 -p simulated_card -m gpu tests/losses tests/models \
	  tests/tasks tests/training

test-cluster: $(STAMP) ## Test the Slurm launcher on a cluster of this machine (as root, with slurm-wlm)
	$(BIN)/python -m $(PIP) -c constraints.txt -e '.[slurm]'
	REPRO_TEST_CLUSTER=1 $(BIN)/python -m pytest -n 0 tests/cluster

format: $(STAMP) ## Rewrite style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Test, then time mappings and losses (settings in ARGS), write benchmarks/results
	$(BIN)/python -m benchmarks $(ARGS)

bench-startup: $(STAMP) ## Print the processor time of whole commands (settings in ARGS)
	$(BIN)/python -m benchmarks.startup $(ARGS)

numbers: $(STAMP) ## Rewrite the results in README.md and docs from the committed records
	$(BIN)/python -m benchmarks.numbers

docs: $(STAMP) ## Build a site of all pages, with search: build/docs/site/index.html
	$(BIN)/python -m $(PIP) -c constraints.txt -e '.[docs]'
	$(MAKE) --no-print-directory pages
	$(BIN)/mkdocs build --quiet

pages: ## Copy the pages and the committed reports to build/docs/pages, and write a page of each run
	rm -rf build/docs && mkdir -p build/docs/pages
	cp -r *.md docs build/docs/pages
	cp -r --parents $(foreach scale,small subset full,$(wildcard $(addprefix results/$(scale)/,report.html tables figures records))) $(addprefix results/,index.html runs.html mappings.html) build/docs/pages
	$(BIN)/python -m benchmarks.run_pages build/docs/pages/results
	find build/docs/pages -name '*.md' -exec sed -i -E 's#(results/(small|subset|full)/report)\.md#\1.html#g' {} +
	cd build/docs/pages/results; up=..; for pages in '*.html' '*/*.html' '*/*/*.html'; do \
	  sed -i "s#^<main>#&<p class=place><a href=$$up/index.html>← documentation</a></p>#" $$pages; up=../$$up; done

gpu: $(STAMP) ## On a CUDA device, for MINUTES: tests, benchmark, speeds, runs; writes docs/gpu.md, results/gpu.tgz
	$(BIN)/python -m benchmarks.gpu --minutes $(MINUTES) $(ARGS)

clean: ## Remove the caches, and the demo results if that is confirmed (keeps .venv and the other results)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@test ! -d results/demo || { printf 'Remove results/demo with its runs and sweeps? [y/N] '; read answer; \
	  if [ "$$answer" = y ]; then rm -rf results/demo; fi; }
