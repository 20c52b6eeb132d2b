# Each target installs its requirements, unless they are installed already.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export NINJA_BENCH_ARCHIVE ?= $(firstword $(wildcard ../shared/data/korean/lat.ark.gz) examples/lat.ark.gz)
unexport PYTHONDONTWRITEBYTECODE  # the tests compile hundreds of modules, and the programs that they start all of ninja
EXTENSIONS = $(wildcard ext/*/*.pyx ext/*/*.pxd ext/*/*.hpp)

.PHONY: demo test lint format bench docs pages clean dist-check cluster-check programs fuzz fuzz-long tsan lock

# `make demo` needs only the package, the other targets also its tools.
demo: $(VENV)/.package
	$(BIN)/python examples/demo.py

test: $(VENV)/.tools programs
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(TESTS)

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror ext/*/*.hpp fuzz/*.hpp fuzz/*.cpp fuzz/targets/*.cpp
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint ext  # it calls pycodestyle
	$(BIN)/mypy

format: $(VENV)/.tools
	$(BIN)/ruff format .
	$(BIN)/clang-format -i ext/*/*.hpp fuzz/*.hpp fuzz/*.cpp fuzz/targets/*.cpp

bench: $(VENV)/.package
	for name in formats "kernels graph" "rescoring engine"; do $(BIN)/python -m benchmarks.$$name || exit; done

# Run the tutorials, build the site in build/site, and test it in a browser.
docs: $(VENV)/.tools $(VENV)/.docs programs
	$(BIN)/python docs/render_formats.py
	$(BIN)/python -m pytest tests/project/test_tutorials.py tests/project/test_readme.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	NINJA_SITE=build/site $(BIN)/python -m pytest tests/project/test_site.py

# Update the printed output of code in the pages.
pages: $(VENV)/.tools $(VENV)/.docs programs
	NINJA_WRITE_PAGES=1 $(BIN)/python -m pytest tests/project/test_tutorials.py

# Build the source archive and the wheel, and install it in a new environment.
dist-check: $(VENV)/.tools
	NINJA_SLOW=1 $(BIN)/python -m pytest tests/project/test_packaging.py

# Tests with a Ray cluster of two nodes and an S3 server on this machine.
cluster-check: $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[ray,cloud,test-cloud]"
	NINJA_SLOW=1 $(BIN)/python -m pytest tests/pipeline/test_ray.py tests/files/test_remote.py

# Fuzz every reader and kernel, for minutes or hours; see fuzz/README.md. Needs clang and llvm.
FUZZ_JOBS ?= $(shell nproc)
fuzz:
	$(PYTHON) fuzz/run.py --seconds 15 --jobs $(FUZZ_JOBS) --coverage

fuzz-long:
	$(PYTHON) fuzz/run.py --seconds 14400 --runs 10000000 --jobs $(FUZZ_JOBS) --merge --coverage

# Run kernels on threads under ThreadSanitizer. Needs clang.
tsan:
	$(PYTHON) fuzz/tsan.py

# Lock all dependencies with the SHA-256 of each file; run after every change of constraints.txt. Wheels are also built for
# Python 3.10, which some libraries of the tests no longer support.
LOCK = pipx run uv==0.13.9 pip compile -c constraints.txt --universal --generate-hashes --no-annotate \
	--custom-compile-command "make lock" --quiet
lock:
	$(LOCK) pyproject.toml --all-extras --python-version 3.11 -o constraints.lock
	$(LOCK) --group build --python-version 3.10 -o build.lock

clean:
	rm -rf build dist *.egg-info ninja/*.so $(VENV)/.package $(VENV)/.tools $(VENV)/.docs
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# TORCH_INDEX: URL of an index that has torch without CUDA. Only torch is installed from it, so that it cannot replace
# another package of PyPI.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$@ -m pip install --quiet --no-deps --index-url $(TORCH_INDEX) "$$(grep ^torch== constraints.txt)")

$(VENV)/.package: pyproject.toml setup.py constraints.txt $(EXTENSIONS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/python -m compileall -q ninja models  # as pip does unless it installs in place
	touch $@

# Programs that tests need: a browser, and OpenFst's command-line tools.
programs:
	@missing=""; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		[ -n "$$NINJA_CHROMIUM" ] || missing="$$missing chromium"; \
	command -v fstinfo >/dev/null || missing="$$missing libfst-tools"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && apt-get install -y -q --no-install-recommends $$missing || \
			echo "could not install$$missing" >&2; \
	else echo "some tests are skipped without$$missing: apt-get install$$missing" >&2; fi

# Install extras by the metadata of the installed package: installing the package again would rebuild it.
$(VENV)/.tools: EXTRAS = test lint
$(VENV)/.docs: EXTRAS = docs
$(VENV)/.tools $(VENV)/.docs: $(VENV)/.package
	$(BIN)/python -c 'import sys; from importlib.metadata import requires; \
		extras = tuple(f"\"{extra}\"" for extra in sys.argv[1:]); \
		print(*(line.partition(";")[0] for line in requires("ninja-asr") if line.endswith(extras)), sep="\n")' \
		$(EXTRAS) > $@.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $@.txt
	touch $@
