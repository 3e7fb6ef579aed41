# Everything from a fresh checkout: needs Python 3.10 or newer, a C++20 compiler and make.
PYTHON ?= python3

VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := CMakeLists.txt native $(wildcard native/* native/*/*)
READY  := $(VENV)/.ready

.DELETE_ON_ERROR:
.PHONY: demo picture test pytest test-slow coverage lint docs linkcheck wheel stress fuzz soak clean

# Other scenes and weights: make demo SEED=1.
SEED ?= 0

demo: $(READY)
	$(BIN)/python examples/demo.py --seed $(SEED)

picture: $(READY)
	$(BIN)/python examples/picture.py

test: lint pytest docs

pytest: $(READY)
	$(BIN)/python -m pytest -n 2

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

# The lines and branches of the Python code that tests reach; the page is in build/coverage.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --cov=densefield --cov-branch --cov-report=term:skip-covered --cov-report=html:build/coverage

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/mypy

# Pages run their examples, and load nothing from other servers.
docs: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_offline.py docs/_build/html

# Links to other servers; needs the network, so no check depends on it.
linkcheck: $(READY)
	$(BIN)/python -m sphinx -q -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

# Builds the sdist, the wheel out of it, and tests that wheel with no compiler in reach.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	.ci/test-wheel $(BIN)/python dist/*.whl

# The property tests with many more cases: make fuzz CASES=20000.
CASES ?= 5000
fuzz: $(READY)
	DENSEFIELD_FUZZ_CASES=$(CASES) $(BIN)/python -m pytest -q tests/test_properties.py

# Many thousand calls in one process: memory must stay flat.
soak: $(READY)
	$(BIN)/python benchmarks/soak.py

# Random cases of the native core under AddressSanitizer with UBSan, and under ThreadSanitizer: make stress SECONDS=600.
SECONDS ?= 30
stress:
	for kind in address,undefined thread; do \
		cmake -S native/tests -B build/stress-$$kind -DSANITIZE=$$kind && cmake --build build/stress-$$kind && \
		build/stress-$$kind/stress $(SECONDS) || exit 1; \
	done

clean:
	rm -rf $(VENV) build dist demo docs/_build docs/generated .mypy_cache .pytest_cache .ruff_cache

# Torch comes first and pinned. The build tools come before densefield because it is built without
# isolation: the build directory stays valid, so that a change in native/ recompiles only what it touches.
$(VENV)/.tools: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt torch numpy cmake hatch-fancy-pypi-readme nanobind ninja scikit-build-core
	touch $@

$(READY): $(VENV)/.tools pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation -e '.[torch,dev]'
	$(BIN)/python -m pip install -q -c constraints.txt pydensecrf2 || \
		echo 'pydensecrf could not be installed: the tests against it are skipped.'
	touch $@
