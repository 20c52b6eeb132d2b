"""The compiled kernels; everything else about the package stands in pyproject.toml."""

import os
import sys
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

# No debugging symbols: they would take a third of the time. Costs must add up to the same bits on every machine, also
# where operations can be fused.
OPTIONS = ["-std=c++17", "-O3", "-g0", "-fno-math-errno", "-ffp-contract=off", "-Wall"]
# The kernels read files of strangers: an overflow on the stack or of a buffer whose size is known ends the process, and
# the tables of the linker are read-only once a module is loaded. Macros that the system sets already are set anew.
OPTIONS += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
LINKING = ["-Wl,-z,relro,-z,now"] if sys.platform == "linux" else []  # of GNU's linker, which macOS has not
KERNELS = sorted(Path("ext").glob("*/_*.pyx"))  # each a module: one a room, three of formats
if "NINJA_EXTENSIONS" in os.environ:  # for quick builds
    KERNELS = [path for path in KERNELS if path.stem in os.environ["NINJA_EXTENSIONS"].split(",")]


def extensions():
    """Return the kernels' modules, translated by Cython on all cores."""
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
        packages=[*find_packages(include=["ninja", "ninja.*"]), "ninja.models"],  # the last lies in models/
        ext_modules=extensions(),
        options={"build_ext": {"parallel": os.cpu_count()}},
    )
