"""The compiled kernels; all other metadata is in pyproject.toml."""

import os
import sys
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

# Debugging symbols would take a third of the time. Fused operations are off, so that sums of costs have the same bits
# on every machine.
OPTIONS = ["-std=c++17", "-O3", "-g0", "-fno-math-errno", "-ffp-contract=off", "-Wall"]
# The kernels read untrusted files: overflows of the stack or of buffers of known size end the process, and relocation
# tables are read-only after loading. Some systems define _FORTIFY_SOURCE already.
OPTIONS += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
LINKING = ["-Wl,-z,relro,-z,now"] if sys.platform == "linux" else []  # options of the GNU linker
KERNELS = sorted(Path("ext").glob("*/_*.pyx"))  # a module each
if "NINJA_EXTENSIONS" in os.environ:  # for quick builds
    KERNELS = [path for path in KERNELS if path.stem in os.environ["NINJA_EXTENSIONS"].split(",")]


def extensions():
    """Return the extension modules, translated by Cython on all cores."""
    return cythonize(
        [
            Extension(
                f"ninja.{path.stem}",
                [str(path)],
                include_dirs=["ext", np.get_include()],
                language="c++",
                extra_compile_args=OPTIONS,
                extra_link_args=LINKING,
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
                depends=[str(header) for header in Path("ext").glob("*/*.[hp][px][pd]")],
            )
            for path in KERNELS
        ],
        nthreads=os.cpu_count(),
        include_path=["ext"],
        build_dir="build",
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "embedsignature": True,
        },
    )


if __name__ == "__main__":  # not in Cython's processes
    setup(
        packages=[*find_packages(include=["ninja", "ninja.*"]), "ninja.models"],  # the last is in models/
        ext_modules=extensions(),
        options={"build_ext": {"parallel": os.cpu_count()}},
    )
