"""Corpora as streams of word ids, passages or contexts of words, in bounded memory: plain text or JSON lines,
compressed or not, in a file or a folder.

Documents:

- a line ``=== name ===`` ends a document, and is not part of the text;
- a line `` = Title = `` (WikiText, level 1) starts a document, and is part of it;
- a line of a ``.jsonl`` file is a document: ``text`` is a text, ``sentences`` a list of sentences, each a text with
  spaces between its tokens or a list of tokens;
- any other file is one document.

Tokens: tokenised text, with spaces around punctuation, ``'s`` and ``n't`` ``like this .``, is split at white space, as
are ``sentences``. Running text is split by :data:`WORD`. The argument ``tokens`` chooses; by default the beginning of
each file (its first document) decides.

Contexts of a word are sentences, cut to a window around it. A document may list its sentences. In running text a
sentence ends at ``.``, ``!`` or ``?`` before a capital letter, except after titles and initials. A paragraph ends at an
empty line or a heading (``= Title =``), which also ends the sentence.
"""

from __future__ import annotations

import hashlib
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.datasets.files import OnBroken, read_lines, read_objects, refuse
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.text.normal_form import NormalText, is_plain, normal_form, word_pattern
from pytest_genderbias.text.plain_files import expand, is_regular, open_regular, open_unpacked, unreadable
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.unspaced import CutCheck, check_of

Ids = NDArray[np.int64]


class Vocabulary(dict[str, int]):
    """Word ids in the order of first appearance. Looking up a new word adds it.

    Args:
        words: Initial words, such as the gendered ones; their case is kept.
        fold_case: Convert all other words to lower case.

    >>> vocabulary = Vocabulary(["She"], fold_case=True)
    >>> [vocabulary[word] for word in ("She", "Sings", "sings", "she")], vocabulary.words
    ([0, 1, 1, 2], ['She', 'sings', 'she'])
    """

    def __init__(self, words: Iterable[str] = (), *, fold_case: bool = False) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fold_case = fold_case
        for word in words:
            self.add(normal_form(word))

    def add(self, word: str) -> int:
        """Return the id of a word, adding it if it is new. Its case is kept, also with ``fold_case``."""
        known = self.get(word)
        if known is not None and self.words[known] == word:
            return known
        self.words.append(word)
        self[word] = len(self.words) - 1
        return self[word]

    def __missing__(self, word: str) -> int:
        """Add a word of a text, in lower case with ``fold_case``, and return its id."""
        if not self.fold_case or word == word.lower():
            return self.add(word)
        self[word] = self[word.lower()]
        return self[word]

    def ids(self, tokens: Sequence[str]) -> Ids:
        """Return the id of each token, shape (n,)."""
        return np.fromiter(map(self.__getitem__, tokens), dtype=np.int64, count=len(tokens))


def label_groups(vocabulary: Vocabulary, groups: Sequence[Iterable[str]]) -> NDArray[np.int8]:
    """Add the words of G groups to the vocabulary and return the group of each of its V words.

    Returns:
        The groups, shape (V,): 1 to G, or 0 for a word without a group.

    Raises:
        SettingError: a word is in two groups.

    >>> label_groups(Vocabulary(["sings"]), [["she", "her"], ["he"]])
    array([0, 1, 1, 2], dtype=int8)
    """
    numbers: dict[str, int] = {}
    for number, words in enumerate(groups, 1):
        for word in map(normal_form, words):
            if numbers.setdefault(word, number) != number:
                raise SettingError(f"{brief(word)} is in two groups; remove it from one of them")
    for word in numbers:
        vocabulary.add(word)
    return np.array([numbers.get(word, 0) for word in vocabulary.words], dtype=np.int8)


def scorable_words(
    words: Sequence[str], labels: ArrayLike, stop_words: Iterable[str] = (), *, punctuation: bool = False
) -> NDArray[np.bool_]:
    """Return which words can be scored, shape (V,): not words of a group, stop words, ``<unk>`` or punctuation.

    Args:
        words: The vocabulary, shape (V,).
        labels: The group of each word, 0 for none; words beyond its length have no group.
        stop_words: Words that are left out; case is ignored.
        punctuation: Whether tokens without a letter or digit can be scored.

    >>> scorable_words(["she", "sings", "The", "<unk>", "."], [1], ["the"]).tolist()
    [False, True, False, False, False]
    """
    stop = {normal_form(word).lower() for word in stop_words}
    kept = [punctuation or not is_punctuation(word) for word in words]
    known = [word.lower() not in stop and not _is_tag(word) for word in words]
    scorable = np.array(kept, dtype=np.bool_) & np.array(known, dtype=np.bool_)
    gendered = np.flatnonzero(np.asarray(labels))
    scorable[gendered[gendered < len(scorable)]] = False
    return scorable


def is_punctuation(token: str) -> bool:
    """Return whether a token has no letter and no digit.

    >>> is_punctuation("@-@"), is_punctuation("60"), is_punctuation("'s")
    (True, False, False)
    """
    return not any(map(str.isalnum, token))


def _is_tag(token: str) -> bool:
    """Return whether a token stands for others, as ``<unk>``."""
    return len(token) > 2 and token.startswith("<") and token.endswith(">")


Tokenise = Callable[[str], list[str]]
#: Consecutive tokens of a document, and whether the document ends after them.
Piece = tuple[list[str], bool]

SUFFIXES = (".txt", ".tokens", ".jsonl", ".txt.gz", ".tokens.gz", ".jsonl.gz")
TOKENS = ("auto", "spaces", "words")
_CHUNK = 1 << 18  #: Approximate number of ids that are yielded at once.
_READ = 1 << 20  #: Characters that are read at once.

_CLITIC = r"['’](?:s|S|d|m|ll|re|ve)\b"
#: A token of running text. Words keep hyphens and inner apostrophes (well-known, O'Brien, don't), but 's, 'd, 'm, 'll,
#: 're and 've are separate tokens, so that "she'd" contains the word "she". Titles (Mr.), abbreviations (U.S.) and
#: numbers
#: (1,000.5) keep their points. <unk> is one token, and so is each punctuation mark.
WORD = re.compile(
    r"[A-Za-z]+(?=[\s,;:!?)])"  # most words, faster than by the rules below
    r"|(?:M(?:r|rs|s)|Dr|St|Jr|Sr|Prof|Rev|Gen|Col|Capt|Lt|Sgt)\."
    r"|(?:[A-Za-z]\.){2,}"
    r"|\d+(?:[.,]\d+)+"
    rf"|[^\W_]+(?:-[^\W_]+|(?!{_CLITIC})['’][^\W_]+)*"
    rf"|{_CLITIC}"
    r"|<\w+>|--+|``|''|[^\w\s]|_"
)


def _at_spaces(text: str) -> list[str]:
    return text.split() if is_plain(text) else _matched(text.split())


def _matched(tokens: list[str]) -> list[str]:
    forms = ((token, normal_form(token)) for token in tokens)
    return [token if is_punctuation(token) else form for token, form in forms if form]


def _words(text: str) -> list[str]:
    return word_pattern(WORD.pattern, text).findall(text)


#: The tokeniser of each mode. Words have their normal form, in which they are matched; invisible characters are no
#: tokens.
TOKENISERS: Mapping[str, Tokenise] = {"spaces": _at_spaces, "words": lambda text: _words(normal_form(text))}
_ATTACHED, _APART = re.compile(r"\w[.,;!?]\s"), re.compile(r"\s(?:[.,;!?]|<unk>|'s|n't)(?=\s)")
_MARK = re.compile(r"^(?:(?P<name>=== .+ ===)| ?= [^=\n]+ = ?)[ \t]*$", re.MULTILINE)


#: A function that counts a stream of word ids: takes n of them, and the positions, from 0 to n, at which documents end.
Count: TypeAlias = Callable[[Ids, Ids], None]


class Size(NamedTuple):
    """The size of a corpus: documents with at least one token, and tokens."""

    documents: int
    tokens: int


def feed_corpus(path: str | Path, vocabulary: Vocabulary, *counts: Count, tokens: str = "auto") -> Size:
    """Read a corpus once and give its word ids to all functions that count them.

    Memory does not grow with the text, except for the vocabulary.

    Args:
        path: A file, or a folder of files (see :data:`SUFFIXES`), which are read in the order of their names.
        vocabulary: The word ids; new words are added.
        counts: The functions; each receives the same ids.
        tokens: ``spaces`` splits at white space, ``words`` as running text; ``auto`` decides for each file.

    Raises:
        DataFileError: the file is missing, has no tokens or is not UTF-8; a line is not a document; the text is not
            cut into words (:mod:`~pytest_genderbias.text.unspaced`).
        SettingError: ``tokens`` is none of the three.
    """
    documents = n_tokens = 0
    for ids, ends in read_ids(path, vocabulary, tokens=tokens):
        documents, n_tokens = documents + len(ends), n_tokens + len(ids)
        for count in counts:
            count(ids, ends)
    return Size(documents, n_tokens)


def read_ids(path: str | Path, vocabulary: Vocabulary, *, tokens: str = "auto") -> Iterator[tuple[Ids, Ids]]:
    """Yield word ids, about 262,144 at a time, with the positions, from 0 to n, at which documents end.

    Arguments and errors as :func:`feed_corpus`. Documents without tokens are left out.
    """
    if tokens not in TOKENS:
        raise SettingError(f"tokens is one of {', '.join(TOKENS)}; got {brief(tokens)}")
    waiting: list[Ids] = []
    ends: list[int] = []
    size, opened, empty = 0, False, True
    check = CutCheck()
    readers = ((_read_documents if has_documents(file) else _read_text, file) for file in corpus_files(path))
    for words, last in chain.from_iterable(read(file, tokens, check) for read, file in readers):
        if words:
            waiting.append(vocabulary.ids(words))
            size, opened, empty = size + len(words), True, False
        if last and opened:
            ends.append(size)
            opened = False
        if size >= _CHUNK:
            yield np.concatenate(waiting), np.array(ends, dtype=np.int64)
            waiting, ends, size = [], [], 0
    if empty:
        raise DataFileError(f"{path}: no words; expected a text, or documents with 'text' or 'sentences', one per line")
    check.refuse(path, DataFileError)
    if waiting or ends:
        yield np.concatenate([np.zeros(0, dtype=np.int64), *waiting]), np.array(ends, dtype=np.int64)


def corpus_files(path: str | Path) -> list[Path]:
    """Return the files of a corpus, sorted by name.

    Raises:
        DataFileError: the file does not exist, or the folder has no corpus file.
    """
    path = expand(path)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.name.endswith(SUFFIXES) and p.is_file())
        if not files:
            raise DataFileError(f"{path}: no corpus in this folder; expected files that end in {', '.join(SUFFIXES)}")
        return files
    if not is_regular(path):
        if path.exists():  # a device, or a pipe
            open_regular(path)
        raise DataFileError(f"{path}: no such file; expected a text (.txt, .jsonl, also with .gz), or a folder of them")
    return [path]


def unread_in(path: str | Path) -> list[str]:
    """Return the names of what :func:`corpus_files` leaves out of a folder: files of other endings, and folders."""
    path = expand(path)
    if not path.is_dir():
        return []
    read = {file.name for file in corpus_files(path)}
    return sorted(one.name for one in path.iterdir() if one.name not in read and not one.name.startswith("."))


def has_documents(path: Path) -> bool:
    """Return whether a file of a corpus has one JSON document per line."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def _read_text(path: Path, tokens: str, check: CutCheck) -> Iterator[Piece]:
    split = TOKENISERS[file_tokens(path, tokens)]
    for text in _blocks(path):
        check.add(text)
        at = 0
        for mark in _MARK.finditer(text):
            yield split(text[at : mark.start()]), True
            at = mark.end() if mark["name"] else mark.start()
        yield split(text[at:]), False
    yield [], True


def _read_documents(path: Path, tokens: str, check: CutCheck) -> Iterator[Piece]:
    split = TOKENISERS[file_tokens(path, tokens)]
    for document in read_documents(path):
        check.add(joined(document))
        if isinstance(document, str):
            yield split(document), True
        else:
            tokens_of = (_at_spaces(one) if isinstance(one, str) else _matched(one) for one in document)
            yield list(chain.from_iterable(tokens_of)), True


def read_documents(path: Path, on_broken: OnBroken = refuse) -> Iterator[str | list[str | list[str]]]:
    """Yield the documents of a ``.jsonl`` file: a text, or a list of sentences (texts, or lists of tokens).

    Raises:
        DataFileError: the file cannot be read, or has no rows; a line is not a document and ``on_broken`` raises.
    """
    empty = True
    for row in read_objects(path, on_broken=on_broken):
        empty = False
        text, sentences = row.cells.get("text"), row.cells.get("sentences")
        if isinstance(text, str):
            yield text
        elif isinstance(sentences, list) and all(map(_is_sentence, sentences)):
            yield sentences
        else:
            present = [name for name in ("text", "sentences") if name in row.cells]
            on_broken(
                row.error(
                    "expected a document with 'text' (a text) or 'sentences' (a list of tokenised sentences), got"
                    f" {', '.join(present) or 'neither'}"
                )
            )
    if empty:
        raise DataFileError(f"{path}: the file has no rows")


def joined(document: str | list[str | list[str]]) -> str:
    """Return a document as one text, with a line for each sentence of a list.

    >>> joined([["He", "sings"], "She too"])
    'He sings\\nShe too\\n'
    """
    if isinstance(document, str):
        return document
    return "".join((s if isinstance(s, str) else " ".join(s)) + "\n" for s in document)


def ends_document(line: str) -> bool:
    """Return whether a line of a text ends the document before it: ``=== name ===``, or a title `` = Title = ``.

    >>> [ends_document(line) for line in ("=== 1790-Washington ===", " = Robert Boulter = ", " = = Career = = ")]
    [True, True, False]
    """
    return _MARK.fullmatch(line) is not None


def _is_sentence(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(token, str) for token in value))


def file_tokens(path: Path, tokens: str = "auto") -> str:
    """Return the tokeniser mode of a file, ``spaces`` or ``words``. With ``auto``, the beginning of the file decides.

    Raises:
        DataFileError: the beginning cannot be read.
    """
    if tokens != "auto":
        return tokens
    beginning = next(read_documents(path), "") if has_documents(path) else next(_blocks(path))
    return text_tokens(beginning) if isinstance(beginning, str) else "spaces"


def text_tokens(beginning: str) -> str:
    """Return the tokeniser mode of a text by its beginning: ``spaces`` if most punctuation marks have a space before
    them, or if it is in a script without spaces, where those that are there cut it into words.

    >>> text_tokens("She sings , he too ."), text_tokens("She sings, he too.")
    ('spaces', 'words')
    """
    beginning = normal_form(beginning)
    apart = len(_APART.findall(beginning)) > len(_ATTACHED.findall(beginning))
    return "spaces" if apart or check_of([beginning]).is_unspaced else "words"


def _blocks(path: Path) -> Iterator[str]:
    """Yield a text in pieces that end at a line end, or at a word end in a very long line."""
    rest = ""
    try:
        with io.TextIOWrapper(open_unpacked(path), encoding="utf-8-sig") as stream:
            while read := stream.read(_READ):
                if "\0" in read[:100]:  # two bytes a character, which the reader of lines names
                    next(read_lines(path))
                text = rest + read
                cut = text.rfind("\n") + 1 or max(text.rfind(" "), text.rfind("\t")) + 1 or len(text)
                yield text[:cut]
                rest = text[cut:]
    except UnicodeDecodeError:
        for _ in read_lines(path):  # raises the error with the line of the byte
            pass
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from None
    yield rest


#: A text and its number of words.
Passage = tuple[str, int]


def read_passages(paths: Sequence[str | Path], most: int, *, size: int = 2000, tokens: str = "auto") -> list[Passage]:
    """Return the beginning of a corpus as untokenised passages, each with its number of words.

    Words are counted by the tokeniser of :func:`feed_corpus`, so punctuation marks
    are words. A passage ends with the line (in ``.jsonl``, the document) with which it has ``size`` words, separated by
    white space.

    Args:
        paths: Files or folders, as for ``feed_corpus``.
        most: The number of words in total; the passage that reaches it is the last.
        size: The smallest number of words of a passage, unless its file ends.
        tokens: The tokeniser mode, as for ``feed_corpus``.

    Raises:
        DataFileError: a file is missing, has no words or is not UTF-8; a line is not a document; the text is not cut
            into words (:mod:`~pytest_genderbias.text.unspaced`).
    """
    passages: list[Passage] = []
    files = (file for path in paths for file in corpus_files(path))
    for text, words in chain.from_iterable(_passages(file, min(size, most), tokens) for file in files):
        if words:
            passages.append((text, words))
        if sum(words for _, words in passages) >= most:
            break
    if not passages:
        raise DataFileError(f"{', '.join(map(str, paths))}: no words; expected a text")
    check_of(text for text, _ in passages).refuse(", ".join(map(str, paths)), DataFileError)
    return passages


def _passages(file: Path, size: int, tokens: str) -> Iterator[Passage]:
    split = TOKENISERS[file_tokens(file, tokens)]
    text, words = "", 0
    for part in _parts(file):
        text += part
        words += len(part.split())
        if words >= size:
            yield text, len(split(text))
            text, words = "", 0
    yield text, len(split(text))


def _parts(file: Path) -> Iterator[str]:
    """Yield the lines with their line ends, or the documents of a ``.jsonl`` file."""
    if not has_documents(file):
        yield from (line + "\n" for _, line in read_lines(file))
        return
    for document in read_documents(file):
        yield joined(document) + "\n" * isinstance(document, str)


def corpus_sha256(paths: Sequence[str | Path]) -> str:
    """Return the SHA-256 of the bytes of all files of a corpus, in their order. File names do not count.

    Raises:
        DataFileError: a file is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for file in (file for path in paths for file in corpus_files(path)):
        try:
            with open_regular(file) as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise unreadable(file, error) from None
    return digest.hexdigest()


_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\b[A-Z]\.)"
    r"\s+(?=[\"'“‘(`]*[A-Z])"
)
_HEADING = re.compile(r"\s*=+ .+ =+\s*")
_WORD = r"[\w]+(?:[-'’][\w]+)*"
_LONGEST = 1 << 16  #: Characters of a paragraph; a longer one is split at the end of a line.


#: A text, and the position of a word in it: characters [start, stop).
WordContext: TypeAlias = tuple[str, tuple[int, int]]


def draw_contexts(
    path: str | Path, words: Collection[str], *, most: int = 200, window: int = 9, seed: int = 0
) -> dict[str, list[WordContext]]:
    """Sample contexts of words from a corpus.

    The corpus is read once, in memory that does not grow with it. A word occurs in a sentence if the case is equal and
    no letter, digit or hyphen is next to it: "John's" contains "John"; "bill" and "Bill-like" do not contain "Bill".
    Words are matched in their normal form (:mod:`~pytest_genderbias.text.normal_form`), and the contexts keep their
    characters. A sentence is one context of a word, at the first occurrence.

    Args:
        path: A file, or a folder of files, as for :func:`feed_corpus`.
        words: The words; a word may contain spaces.
        most: The largest number of contexts for a word, sampled uniformly from all its contexts.
        window: The number of words of a context, the word included; it is centred on the word where the sentence
            allows.
        seed: The seed of the sample. The sample of a word does not depend on the other words.

    Returns:
        The sampled contexts of each word, none if the word does not occur.

    Raises:
        DataFileError: as :func:`feed_corpus`, also of a text that is not cut into
            words.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "two.txt")
    ...     _ = file.write_text("In spring old Bill, the baker, paid the bill. Bill's shop was full.")
    ...     sample = draw_contexts(file, ["Bill"], window=3)["Bill"]
    >>> [(text, text[start:stop]) for text, (start, stop) in sample]
    [('old Bill, the', 'Bill'), ("Bill's shop was", 'Bill')]
    """
    samples: dict[str, list[WordContext]] = {word: [] for word in words}
    seen = dict.fromkeys(samples, 0)
    generators = {word: np.random.default_rng([seed, zlib.crc32(word.encode())]) for word in samples}
    word_of = {" ".join(normal_form(word).split()): word for word in samples}
    pattern = _pattern(word_of)
    check = CutCheck()
    for _, sentence in read_sentences(path):
        check.add(sentence)
        normal = NormalText(sentence)
        found = reversed([*word_pattern(pattern, normal.text).finditer(normal.text)])
        positions = {word_of[" ".join(match[0].split())]: normal.span(*match.span()) for match in found}
        for word, (start, stop) in positions.items():
            seen[word] += 1
            if len(samples[word]) < most:
                samples[word].append(_cut(sentence, start, stop, window))
            elif (index := int(generators[word].integers(seen[word]))) < most:
                samples[word][index] = _cut(sentence, start, stop, window)
    check.refuse(path, DataFileError)
    return samples


def read_sentences(path: str | Path, on_broken: OnBroken = refuse) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a corpus with the number of their document, from 0; empty documents are counted.

    Documents end as in this module's description. An unreadable line is skipped if ``on_broken`` does
    not raise.

    Raises:
        DataFileError: as :func:`feed_corpus`.
    """
    number = -1
    for file in corpus_files(path):
        for sentences in _documents(file, on_broken):
            number += 1
            yield from ((number, sentence) for sentence in sentences)


def _documents(file: Path, on_broken: OnBroken) -> Iterator[Iterable[str]]:
    """Yield the sentences of each document of a file. Read them before the next document."""
    if not has_documents(file):
        for _, lines in groupby(_with_document(read_lines(file, on_broken)), itemgetter(0)):
            yield _split(line for _, line in lines)
        return
    for document in read_documents(file, on_broken):
        if isinstance(document, str):
            yield _split(document.splitlines())
        else:
            yield (s if isinstance(s, str) else " ".join(s) for s in document)


def _with_document(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    number = 0
    for _, line in lines:
        number += ends_document(line)
        yield number, line


def _split(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of running text."""
    for paragraph in _paragraphs(lines):
        yield from _END.split(paragraph)


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    paragraph: list[str] = []
    size = 0
    for line in lines:
        ends = not line.strip() or bool(_HEADING.fullmatch(line))
        if paragraph and (ends or size > _LONGEST):
            yield " ".join(paragraph)
            paragraph, size = [], 0
        if not ends:
            paragraph.append(line.strip())
            size += len(line)
    if paragraph:
        yield " ".join(paragraph)


def _pattern(words: Collection[str]) -> str:
    """Return a pattern of the words, longer ones first, so that "human being" does not match as "human"."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    any_of = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest)
    return rf"(?<![\w])(?<![\w]-)(?:{any_of})(?!-?[\w])"


def _cut(sentence: str, start: int, stop: int, window: int) -> WordContext:
    """Return ``window`` words around the characters [start, stop), with the punctuation at the ends of the sentence."""
    spans = [match.span() for match in word_pattern(_WORD, sentence).finditer(sentence)]
    inside = [i for i, (a, b) in enumerate(spans) if a < stop and b > start]
    before = (window - len(inside)) // 2
    first = max(0, min(inside[0] - before, len(spans) - window))
    last = max(inside[-1] + 1, min(len(spans), first + window))
    first = min(first, inside[0])
    left = 0 if first == 0 else spans[first][0]
    right = len(sentence) if last == len(spans) else spans[last - 1][1]
    return sentence[left:right], (start - left, stop - left)
