"""``python -m pytest_genderbias``: the command ``genderbias``."""

from pytest_genderbias.command_line.main import main

if __name__ == "__main__":
    raise SystemExit(main())
