"""Run the ``ninja`` command as ``python -m ninja``."""

from ninja._launch import main

if __name__ == "__main__":
    main()
