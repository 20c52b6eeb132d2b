# Each target sets up what it needs; what stands already is not made again.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
export NINJA_BENCH_ARCHIVE ?= $(firstword $(wildcard ../shared/data/korean/lat.ark.gz) examples/lat.ark.gz)
EXTENSIONS = $(wildcard ext/*/*.pyx ext/*/*.pxd ext/*/*.hpp)

.PHONY: demo test lint format bench docs pages clean dist-check cluster-check programs fuzz fuzz-long tsan lock

# `make demo` needs the package alone, the others its tools too.
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

# The site, in build/site, after its tutorials have run; then it is searched and looked at in a browser.
docs: $(VENV)/.tools $(VENV)/.docs programs
	$(BIN)/python docs/render_formats.py
	$(BIN)/python -m pytest tests/project/test_tutorials.py tests/project/test_readme.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	NINJA_SITE=build/site $(BIN)/python -m pytest tests/project/test_site.py

# Writes what the pages' code prints into the pages.
pages: $(VENV)/.tools $(VENV)/.docs programs
	NINJA_WRITE_PAGES=1 $(BIN)/python -m pytest tests/project/test_tutorials.py

# From the source archive to an installed command, in an environment of its own.
dist-check: $(VENV)/.tools
	NINJA_SLOW=1 $(BIN)/python -m pytest tests/project/test_packaging.py

# A Ray cluster of two nodes, and a server of S3, on this machine.
cluster-check: $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[ray,cloud,test-cloud]"
	NINJA_SLOW=1 $(BIN)/python -m pytest tests/pipeline/test_ray.py tests/files/test_remote.py

# Mutated inputs for every reader and kernel, minutes or hours; see fuzz/README.md. Needs clang and llvm.
FUZZ_JOBS ?= $(shell nproc)
fuzz:
	$(PYTHON) fuzz/run.py --seconds 15 --jobs $(FUZZ_JOBS) --coverage

fuzz-long:
	$(PYTHON) fuzz/run.py --seconds 14400 --runs 10000000 --jobs $(FUZZ_JOBS) --merge --coverage

# Kernels on threads under ThreadSanitizer. Needs clang.
tsan:
	$(PYTHON) fuzz/tsan.py

# All that the pinned versions need in their turn, with SHA-256 of each file; after every change of constraints.txt. Wheels
# are built for Python 3.10, too, which some libraries of the tests no longer support.
LOCK = pipx run uv==0.13.9 pip compile -c constraints.txt --universal --generate-hashes --no-annotate \
	--custom-compile-command "make lock" --quiet
lock:
	$(LOCK) pyproject.toml --all-extras --python-version 3.11 -o constraints.lock
	$(LOCK) --group build --python-version 3.10 -o build.lock

clean:
	rm -rf build dist *.egg-info ninja/*.so $(VENV)/.package $(VENV)/.tools $(VENV)/.docs
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# TORCH_INDEX: the address of an index that has torch without CUDA. Nothing else is installed from it, so that it cannot
# replace another package of PyPI.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$@ -m pip install --quiet --no-deps --index-url $(TORCH_INDEX) "$$(grep ^torch== constraints.txt)")

$(VENV)/.package: pyproject.toml setup.py constraints.txt $(EXTENSIONS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

# Programs that tests drive or compare with: a browser for the pages, OpenFst's own tools.
programs:
	@missing=""; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		[ -n "$$NINJA_CHROMIUM" ] || missing="$$missing chromium"; \
	command -v fstinfo >/dev/null || missing="$$missing libfst-tools"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && apt-get install -y -q --no-install-recommends $$missing || \
			echo "could not install$$missing" >&2; \
	else echo "without$$missing some tests skip themselves: apt-get install$$missing" >&2; fi

# Extras, as the installed package names them: to install it again would build it again.
$(VENV)/.tools: EXTRAS = test lint
$(VENV)/.docs: EXTRAS = docs
$(VENV)/.tools $(VENV)/.docs: $(VENV)/.package
	$(BIN)/python -c 'import sys; from importlib.metadata import requires; \
		extras = tuple(f"\"{each}\"" for each in sys.argv[1:]); \
		print(*(each.partition(";")[0] for each in requires("ninja-asr") if each.endswith(extras)), sep="\n")' \
		$(EXTRAS) > $@.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $@.txt
	touch $@
