"""The data sets that the suites can use, and the search for their files under ``--bias-data=DIR``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_genderbias.errors import NotApplicableError, SettingError, UnknownNameError
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.printable import brief, expected_instead

#: Files that belong together, each a path or pattern relative to the data folder.
Choice = tuple[str, ...]


#: The file of each category of BBQ, without ``.jsonl``, by the name of its split.
BBQ_CATEGORIES: Mapping[str, str] = {
    "gender": "Gender_identity", "religion": "Religion", "age": "Age", "disability": "Disability_status",
    "nationality": "Nationality", "appearance": "Physical_appearance", "race": "Race_ethnicity",
    "race_gender": "Race_x_gender", "race_ses": "Race_x_SES", "ses": "SES", "orientation": "Sexual_orientation",
}  # fmt: skip


class MissingDataError(NotApplicableError):
    """A data set is missing."""


@dataclass(frozen=True)
class DataSet:
    """The file names, the source and the licence of a data set.

    ``splits`` maps the official splits, in the order of the search, to choices of files; the search returns the first
    choice whose files all exist. The first choice has the published names. Each file may be compressed, with ``.gz``
    added to its name. The split ``train`` is returned only if requested by name. ``instead`` names an alternative for
    the message.
    """

    name: str
    title: str
    splits: Mapping[str, tuple[Choice, ...]]
    published: str
    licence: str
    instead: str = ""


@dataclass(frozen=True)
class SplitFiles:
    """The files of a split of a data set."""

    files: tuple[Path, ...]
    split: str


def _table(stem: str) -> tuple[Choice, ...]:
    return tuple((stem + suffix,) for suffix in (".jsonl", ".csv", ".tsv", ".parquet"))


def _winobias(pattern: str) -> tuple[Choice, ...]:
    return (tuple(f"winobias/{pattern.format(side=side, kind=kind)}" for kind in (1, 2) for side in ("pro", "anti")),)


_HUB = "https://huggingface.co/datasets"
_NLTK = "https://www.nltk.org/nltk_data/"
_COREFBIAS = "https://github.com/uclanlp/corefBias"
_WINOGENDER = "https://github.com/rudinger/winogender-schemas"
_NO_COREFERENCE = "the templates of lu2018, which are packaged (suite coref-occupation), need no data"

#: All data sets by name.
DATA_SETS: Mapping[str, DataSet] = {
    data.name: data
    for data in (
        DataSet(
            "snli",
            "SNLI",
            {split: (("snli/snli_1.0_" + split + ".jsonl",), *_table(f"snli/{split}")) for split in ("test", "dev")}
            | {"train": (("snli/snli_1.0_train.jsonl",), *_table("snli/train"), *_table("snli/train_20k"))},
            "https://nlp.stanford.edu/projects/snli/",
            "CC BY-SA 4.0",
        ),
        DataSet(
            "stsb",
            "STS Benchmark",
            {split: ((f"stsb/sts-{split}.csv",), *_table(f"stsb/{split}")) for split in ("test", "dev", "train")},
            "http://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark",
            "CC BY-SA 4.0, the texts their own",
            "templates of the same form are packaged (suite sts-occupation)",
        ),
        DataSet(
            "winobias",
            "WinoBias",
            {split: _winobias("{side}_stereotyped_type{kind}.txt." + split) for split in ("test", "dev")},
            _COREFBIAS,
            "MIT",
            _NO_COREFERENCE,
        ),
        DataSet(
            "winogender",
            "Winogender sentences",
            {"test": (("winogender/all_sentences.tsv",),)},
            _WINOGENDER,
            "MIT",
            _NO_COREFERENCE,
        ),
        DataSet(
            "winogender_templates",
            "Winogender templates",
            {"test": (("winogender/templates.tsv",),)},
            _WINOGENDER,
            "MIT",
            _NO_COREFERENCE,
        ),
        DataSet(
            "gap",
            "GAP",
            {split: ((f"gap/gap-{split}.tsv",),) for split in ("test", "validation", "development")},
            "https://github.com/google-research-datasets/gap-coreference",
            "Apache-2.0",
            "a masked or causal LM needs none (suite coref-occupation), and --bias-option training=PATH names CoNLL"
            " files",
        ),
        DataSet(
            "bias_in_bios",
            "Bias in Bios",
            {
                split: ((f"bios/{split}-*.parquet",), *_table(f"bios/bias_in_bios_{split}"))
                for split in ("test", "dev", "train")
            }
            | {"sample": _table("bios/bias_in_bios_sample")},
            f"{_HUB}/LabHC/bias_in_bios",
            "MIT (the biographies are texts from the web)",
        ),
        DataSet(
            "wiki_career",
            "Wikipedia careers",
            {"test": _table("bios/wiki_career")},
            "https://github.com/PlusLabNLP/ee-wiki-bias",
            "CC BY-SA 3.0 (the texts; the set states none)",
        ),
        DataSet(
            "crows_pairs",
            "CrowS-Pairs",
            {"test": (("crows_pairs/crows_pairs_anonymized.csv",),)},
            "https://github.com/nyu-mll/crows-pairs",
            "CC BY-SA 4.0",
        ),
        DataSet(
            "bec_pro",
            "BEC-Pro (English)",
            {"test": (("bec_pro/BEC-Pro_EN.tsv",),)},
            "https://github.com/marionbartl/gender-bias-BERT",
            "CC BY 4.0",
        ),
        DataSet(
            "stereoset",
            "StereoSet (intrasentence)",
            {"test": (("stereoset/test.json",),), "dev": (("stereoset/dev.json",), ("stereoset/intrasentence.jsonl",))},
            "https://github.com/moinnadeem/StereoSet",
            "CC BY-SA 4.0",
        ),
        DataSet(
            "bbq",
            "BBQ",
            {split: ((f"bbq/{file}.jsonl",),) for split, file in BBQ_CATEGORIES.items()}
            | {
                "gender_templates": (("bbq/templates_gender_identity.csv",),),
                "names": (("bbq/vocabulary_proper_names.csv",),),
            },
            "https://github.com/nyu-mll/BBQ",
            "CC BY 4.0",
            "the questions on gender are also made from templates_gender_identity.csv and vocabulary_proper_names.csv"
            " there",
        ),
        DataSet("brown", "Brown corpus", {"all": (("corpora/brown.jsonl",),)}, _NLTK, "non-commercial use"),
        DataSet(
            "wikitext2",
            "WikiText-2",
            {
                split: ((f"wikitext2/wiki.{split}.tokens",), (f"wikitext2/{split}.txt",))
                for split in ("test", "valid", "train")
            },
            f"{_HUB}/Salesforce/wikitext",
            "CC BY-SA 3.0",
        ),
        DataSet(
            "war_and_peace",
            "War and Peace",
            {"all": (("corpora/war_and_peace.txt",),)},
            "https://www.gutenberg.org/ebooks/2600",
            "public domain",
        ),
        DataSet(
            "state_union",
            "State of the Union addresses",
            {"all": (("corpora/state_union.txt",),)},
            _NLTK,
            "public domain",
        ),
        DataSet("inaugural", "Inaugural addresses", {"all": (("corpora/inaugural.txt",),)}, _NLTK, "public domain"),
    )
}


def data_set_of(value: str, names: Collection[str]) -> str | None:
    """Return the data set in the value of an option, ``NAME`` or ``NAME/SPLIT``, or None if the value is a path.

    The name of a data set takes precedence over a file in the working directory. Write ``./NAME`` for a folder of that
    name.

    Raises:
        SettingError: the value is neither a name nor, without a separator or suffix, a path.

    >>> data_set_of("brown", ["brown"]), data_set_of("./brown", ["brown"]), data_set_of("brown.txt", ["brown"])
    ('brown', None, None)
    """
    name = value.partition("/")[0]
    if name in names:
        return name
    if not re.search(r"[/\\.~]", value):
        if os.path.exists(value):
            raise SettingError(
                f"no data set is called {brief(value)}; a file or folder of this name is here: write ./{value} for it,"
                f" or one of {', '.join(names)}"
            )
        raise SettingError(
            f"no data set is called {brief(value)}; "
            + expected_instead(name, names, advice=f", or a path with a separator or a suffix (./{value})")
        )
    return None


def own_path(value: str) -> Path:
    """Return the value of an option as a path, relative to the working directory or to a home folder (``~``).

    Raises:
        SettingError: the home folder is unknown.
    """
    return expand(value)


@dataclass(frozen=True)
class DataFolder:
    """The folder of ``--bias-data``. With ``root=None``, every data set is missing.

    Raises:
        SettingError: the folder does not exist.
    """

    root: Path | None = None

    def __post_init__(self) -> None:
        """Check that the folder exists."""
        if self.root is not None and not self.root.is_dir():
            raise SettingError(
                f"--bias-data={self.root}: no such folder; expected the folder that contains snli/, stsb/, ..."
                " (docs/reference/data.md)"
            )

    def locate(self, name: str, split: str | None = None) -> SplitFiles:
        """Find the files of a data set.

        Args:
            name: A name from :data:`DATA_SETS`.
            split: An official split. None: the first split that exists, in the order of ``splits``, except ``train``.

        Raises:
            UnknownNameError: no data set, or no split of it, has that name.
            MissingDataError: the files are missing; the message names them, the folder, the source and an alternative.
        """
        _refuse_unknown(name, DATA_SETS, "data set")
        data = DATA_SETS[name]
        if split is not None:
            _refuse_unknown(split, data.splits, f"split of {name}")
        splits = [split] if split is not None else [s for s in data.splits if s != "train"]
        for candidate in splits if self.root is not None else ():
            for choice in data.splits[candidate]:
                files = self._files(choice)
                if files:
                    return SplitFiles(files, candidate)
        raise MissingDataError(self._missing(data, splits))

    def find_all(self, name: str, split: str | None = None) -> tuple[Path, ...]:
        """Return the files of a data set; see :meth:`locate`."""
        return self.locate(name, split).files

    def find(self, name: str, split: str | None = None) -> Path:
        """Return the file of a data set that consists of one file; see :meth:`locate`."""
        files = self.find_all(name, split)
        if len(files) > 1:
            raise SettingError(f"{name} is {len(files)} files here, expected one: {', '.join(map(str, files))}")
        return files[0]

    def _files(self, choice: Choice) -> tuple[Path, ...]:
        assert self.root is not None
        files: list[Path] = []
        for pattern in choice:
            matches = sorted(p for p in self.root.glob(pattern) if p.is_file())
            matches = matches or sorted(p for p in self.root.glob(pattern + ".gz") if p.is_file())
            if not matches:
                return ()
            files += matches
        return tuple(files)

    def _missing(self, data: DataSet, splits: list[str]) -> str:
        wanted = " or ".join(_in_words(data.splits[split][0]) for split in splits)
        where = f"under --bias-data={self.root}" if self.root is not None else "in a folder named by --bias-data=DIR"
        instead = f"; {data.instead}" if data.instead else ""
        return f"no {data.title}: expected {wanted} {where}; published at {data.published}{instead}"


def _in_words(choice: Choice) -> str:
    return choice[0] if len(choice) == 1 else f"{choice[0]} and the {len(choice) - 1} files beside it"


def _refuse_unknown(name: str, names: Mapping[str, object], what: str) -> None:
    if name not in names:
        raise UnknownNameError(f"no {what} is called {brief(name)}; {expected_instead(name, names)}")
