"""Commands that make the tables and pictures of docs/: ``python -m benchmarks.NAME [SUBCOMMAND] --help``."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads of numpy spin, and their time would be counted
