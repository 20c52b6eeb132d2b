"""The compiled kernels; everything else about the package stands in pyproject.toml."""

import os

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

# Debugging symbols would take a third of the time.
OPTIONS = ["-std=c++17", "-O3", "-g0", "-fno-math-errno", "-Wall"]
# Without this, what a comparison of NaNs might signal keeps loops from becoming vector instructions.
FAST = ["-fno-trapping-math"]
# Costs must add up to the same bits on every machine, also where operations can be fused; softmaxes need not.
EXACT = ["-ffp-contract=off"]
KERNELS = sorted(name.removesuffix(".pyx") for name in os.listdir("ext") if name.endswith(".pyx"))
NAMES = os.environ["NINJA_EXTENSIONS"].split(",") if "NINJA_EXTENSIONS" in os.environ else KERNELS  # for quick builds


def extensions():
    """Return the kernels' modules, translated by Cython on all cores."""
    return cythonize(
        [
            Extension(
                f"ninja.{name}",
                [f"ext/{name}.pyx"],
                include_dirs=["ext", np.get_include()],
                language="c++",
                extra_compile_args=OPTIONS + (FAST if name == "_lm" else EXACT),
                define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
                depends=[f"ext/{header}" for header in os.listdir("ext") if header.endswith((".hpp", ".pxd"))],
            )
            for name in NAMES
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
