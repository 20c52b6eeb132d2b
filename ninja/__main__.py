"""``python -m ninja`` is the ``ninja`` command."""

from ninja._launch import main

if __name__ == "__main__":
    main()
