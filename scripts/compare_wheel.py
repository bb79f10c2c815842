"""Compare a built wheel with the checkout: ``python scripts/compare_wheel.py WHEEL``.

Each file of the package's folders has to be in the wheel with the same SHA-256, and beside them nothing but the wheel's
own metadata. Tests of the checkout then hold for the wheel, but for what depends on how it is installed. The exit
status is 1 if something differs.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
#: Folders of the checkout, and where their files are in the wheel.
FOLDERS = {
    "pytest_genderbias": "pytest_genderbias",
    "wordlists": "pytest_genderbias/wordlists",
    "fixtures": "pytest_genderbias/fixtures",
    "docs/evidence/papers": "pytest_genderbias/results",
}


def differences(wheel: Path, checkout: Path = ROOT) -> list[str]:
    """Return what differs between a wheel and a checkout, a line per file."""
    with ZipFile(wheel) as archive:
        built = {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.partition("/")[0].endswith(".dist-info")
        }
    there = dict(_checkout_files(checkout))
    found = [f"{name}: not in the wheel" for name in there.keys() - built.keys()]
    found += [f"{name}: not in the checkout" for name in built.keys() - there.keys()]
    found += [f"{name}: differs" for name in there.keys() & built.keys() if there[name] != built[name]]
    return sorted(found)


def _checkout_files(checkout: Path) -> Iterator[tuple[str, str]]:
    """Yield the name that each file has in the wheel, and its SHA-256."""
    for folder, place in FOLDERS.items():
        for path in (checkout / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(checkout / folder).as_posix()
                yield f"{place}/{name}", hashlib.sha256(path.read_bytes()).hexdigest()


def main(wheel: Path) -> int:
    """Print the differences, and return the exit status."""
    found = differences(wheel)
    print("\n".join(found) or f"{wheel.name}: every file is that of the checkout")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
