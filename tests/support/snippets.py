"""The snippets of a page of the documentation, run from its top to its end in one folder, as a reader would.

A page is markdown; what steers a run stands in comments, which no reader sees:

- ``sh``: commands, run one by one; ``pytest`` and ``genderbias`` run in this process.
- ``text`` right below ``sh``: what its last command prints, or lines of it: ``...`` stands for any lines.
- Any language with ``title="FILE"``: the content of a file, written before the next command.
- ``python`` without a title: run; all such blocks of a page share their names. ``pycon`` is a doctest.
- ``yaml`` without a title: gates, mitigations or a suite, read and checked.
- ``<!-- models: october=demo-nli ... -->``: folders that the page calls models, and the demo model that each is
  (``demo-nli-worse``: a worse copy).
- ``<!-- exits: 1 -->``: the last command of the next block ends with this status.
- ``<!-- not run: REASON -->``: the next block is checked without running it: languages are parsed, and flags must
exist.
- ``<!-- snippets are read, not run: REASON -->``: so is every block of the page.

``PYTHONPATH=tests python -m support.snippets PAGE`` prints what each command prints now.
"""

from __future__ import annotations

import ast
import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import yaml
from support.verdict_texts import chdir, run_here

from pytest_genderbias import demo, load_suite
from pytest_genderbias.gates.gate_file import read_gates
from pytest_genderbias.mitigation.harness.file import read_mitigations
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.text.located_yaml import read_yaml

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"^(?P<comments>(?:<!--[^\n]*-->\n+)*)^(?P<indent>"
    r" *)```(?P<language>\w+)(?P<attributes>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_INDENTED = re.compile(r"(?:^|\n\n)((?: {4}[^\n]+\n?)+)")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_LANGUAGES = {
    "sh",
    "text",
    "yaml",
    "python",
    "pycon",
    "ini",
    "toml",
    "json",
    "groovy",
    "markdown",
    "html",
    "csv",
    "sql",
}

Run = Callable[[list[str]], tuple[str, int]]  #: the words of a command to what it prints, and its exit status


@dataclass(frozen=True)
class Snippet:
    """One fenced block of a page: its language, text and first line, the file that it is, and what the comments above
    it say.
    """

    language: str
    text: str
    line: int
    title: str | None
    exits: int
    not_run: str | None


def snippets(page: str) -> Iterator[Snippet]:
    """Yield the fenced blocks of a page."""
    all_unrun = re.search(r"<!-- snippets are read, not run: (.+?) -->", page)
    for match in _BLOCK.finditer(page):
        comments, line = match["comments"], page.count("\n", 0, match.start("text"))
        assert match["language"] in _LANGUAGES, f"line {line}: which language is {match['language']}?"
        title = re.search(r'title="(.+?)"', match["attributes"])
        exits = re.search(r"<!-- exits: (\d+) -->", comments)
        not_run = re.search(r"<!-- not run: (.+?) -->", comments) or all_unrun
        text = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        yield Snippet(
            match["language"], text, line, title and title[1], int(exits[1]) if exits else 0, not_run and not_run[1]
        )


def models(page: str) -> dict[str, str]:
    """Return the folders that a page calls models, and the demo model that stands for each."""
    return dict(pair.split("=") for names in re.findall(r"<!-- models: (.+?) -->", page) for pair in names.split())


def prepare(folder: Path, page: str) -> None:
    """Put the models of a page into its folder, and an empty pytest.ini, which makes it a project."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, stands_for in models(page).items():
        kind, _, worse = stands_for.removeprefix("demo-").partition("-")
        shutil.copytree(Path(demo.__file__).parent / kind, folder / name)
        if worse:
            {"nli": lower_neutral, "lm": draw_apart}[kind](folder / name)


def lower_neutral(checkpoint: Path) -> None:
    """Make the demo NLI model worse: a pair is less often neutral, as after ``examples/release/make_regression.py``."""
    from safetensors.torch import load_file, save_file

    weights = load_file(checkpoint / "model.safetensors")
    labels = json.loads((checkpoint / "config.json").read_text())["label2id"]
    weights["classifier.bias"][labels["neutral"]] -= 1.0
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})


def draw_apart(checkpoint: Path) -> None:
    """Make the demo LM worse: the vectors of "he" and "she", "man" and "woman" are 2.2 times as far apart."""
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    weights, words = load_file(checkpoint / "model.safetensors"), AutoTokenizer.from_pretrained(checkpoint).get_vocab()
    vectors = next(tensor for name, tensor in weights.items() if name.endswith("wte.weight"))
    for pair in (("He", "She"), ("he", "she"), ("his", "her"), ("Ġhe", "Ġshe"), ("Ġman", "Ġwoman")):
        he, she = (words[word] for word in pair)
        middle, half = (vectors[he] + vectors[she]) / 2, (vectors[he] - vectors[she]) / 2
        vectors[he], vectors[she] = middle + 2.2 * half, middle - 2.2 * half
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command, without comments."""
    typed = ""
    for line in text.splitlines():
        typed = f"{typed} {line}" if typed else line
        if typed.endswith("\\"):
            typed = typed[:-1]
            continue
        try:
            words = shlex.split(typed, comments=True)
        except ValueError:  # a quotation that goes on in the next line
            continue
        typed = ""
        if words:
            yield words
    assert not typed, f"unfinished command: {typed}"


@contextmanager
def working_in(folder: Path, words: list[str]) -> Iterator[list[str]]:
    """Yield a command, and of ``(cd examples/NAME && COMMAND)`` the command, with a copy of that example as the current
    folder.
    """
    if words[0] != "(cd":
        yield words
        return
    if not (folder / words[1]).exists():
        shutil.copytree(ROOT / words[1], folder / words[1])
    with chdir(folder / words[1]):
        yield [*words[3:-1], words[-1].rstrip(")")]


class Story:
    """A page that is being run: its folder, the names that its Python blocks share, and what its last command
    printed.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        """Start in a prepared folder; ``run`` runs ``pytest`` and ``genderbias``."""
        self.folder = folder
        self.run = run
        self.names: dict[str, object] = {"__name__": "page"}
        self.printed = ""

    def tell(self, snippet: Snippet) -> None:
        """Run one snippet, or check it. An AssertionError says what is wrong."""
        if snippet.not_run is not None:
            check(snippet, self.folder)
        elif snippet.title is not None:
            (self.folder / snippet.title).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / snippet.title).write_text(snippet.text, encoding="utf-8")
            if not snippet.title.endswith((".py", ".csv", ".md")):
                check(snippet, self.folder)
            for line in re.findall(
                r"^ *- (?:run: )?(pytest [^\n]+)$", snippet.text, re.MULTILINE
            ):  # a step of a CI job
                self._type(Snippet("sh", line, snippet.line, None, 0, None))
        elif snippet.language == "sh":
            self._type(snippet)
        elif snippet.language == "text":
            assert_printed(snippet.text, self.printed)
        elif snippet.language == "python":
            exec(compile(snippet.text, f"line {snippet.line}", "exec"), self.names)
        elif snippet.language == "pycon":
            self._converse(snippet)
        else:
            check(snippet, self.folder)

    def _type(self, snippet: Snippet) -> None:
        typed = list(commands(snippet.text))
        for number, line in enumerate(typed, 1):
            check_flags(line)
            with working_in(self.folder, line) as words:
                if words[0] in ("pytest", "genderbias"):
                    self.printed, status = self.run(words)
                else:
                    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
                    self.printed, status = done.stdout + done.stderr, done.returncode
            expected = snippet.exits if number == len(typed) else 0
            assert status == expected, f"{shlex.join(line)}: exit status {status}, expected {expected}\n{self.printed}"

    def _converse(self, snippet: Snippet) -> None:
        if any(
            find_spec(name) is None for name in re.findall(r"^>>> (?:import|from) (\w+)", snippet.text, re.MULTILINE)
        ):
            return  # a package that is optional
        test = doctest.DocTestParser().get_doctest(snippet.text, self.names, f"line {snippet.line}", None, 0)
        failures: list[str] = []
        doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(
            test, out=failures.append, clear_globs=False
        )
        self.names = test.globs
        assert not failures, "".join(failures)


def assert_printed(expected: str, printed: str) -> None:
    """Hold what a page shows against what was printed: runs of lines in their order, ``...`` for any lines between
    them.

    Numbers may differ in what another CPU rounds away, and times at will.
    """
    lines = [plain(line) for line in printed.splitlines()]
    at = 0
    for run in re.split(r"^ *\.\.\.\n", expected, flags=re.MULTILINE):
        wanted = [plain(line) for line in run.rstrip().splitlines()]
        while wanted and not wanted[0]:
            wanted.pop(0)
        if not wanted:
            continue
        places = range(at, len(lines) - len(wanted) + 1)
        place = next((i for i in places if all(map(alike, wanted, lines[i : i + len(wanted)]))), None)
        assert place is not None, f"not printed in this place:\n{run}\nprinted:\n{printed}"
        at = place + len(wanted)


def plain(line: str) -> str:
    """Return a line without what differs from run to run: times, dates and the width of columns."""
    line = re.sub(r"\b\d{4}-\d\d-\d\d\b", "DATE", re.sub(r"\b[\d.]+ ?s\b(?: \(\d:\d\d:\d\d\))?", "TIME", line))
    return re.sub(r"[ =_-]{2,}", " ", line).strip(" =_-")


def alike(one: str, other: str) -> bool:
    """Return whether two lines have the same words, and numbers that are equal but for rounding."""
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(
        abs(a - b) <= max(0.011 * abs(a), 2e-4)
        for a, b in ((float(x.replace(",", "")), float(y.replace(",", ""))) for x, y in pairs)
    )


def check(snippet: Snippet, folder: Path) -> None:
    """Check a snippet without running it: its language, the flags of its commands, the gates of a file."""
    if snippet.language == "sh":
        for words in commands(snippet.text):
            check_flags(words)
    elif snippet.language == "python":
        check_imports(compile(snippet.text, f"line {snippet.line}", "exec", ast.PyCF_ONLY_AST))
    elif snippet.language == "json":
        json.loads(snippet.text)
    elif snippet.language == "ini":
        ConfigParser().read_string(snippet.text)
    elif snippet.language == "yaml":
        _check_yaml(snippet, folder)
    for line in snippet.text.splitlines():
        if snippet.language != "text" and "--bias-" in line:
            check_flags(line.split())


def check_imports(tree: ast.AST) -> None:
    """Import what a snippet imports from this package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pytest_genderbias"):
            module = import_module(str(node.module))
            for name in node.names:
                assert hasattr(module, name.name), f"{node.module} has no {name.name}"


def check_flags(words: list[str]) -> None:
    """Hold the flags of a command against those that there are."""
    known = {flag.name for flag in FLAGS.values()}
    for name in re.findall(r"(?<![\w-])--bias-[a-z-]+", " ".join(words)):
        assert name in known, f"{name} is no flag"


def _check_yaml(snippet: Snippet, folder: Path) -> None:
    content = yaml.safe_load(snippet.text)
    assert isinstance(content, dict)
    name = snippet.title or "snippet.bias.yaml"
    if not content.keys() & {"gates", "mitigate", "family"}:
        return  # of another program
    if "family" in content:
        name = f"{content['suite']}.yaml"
    path = folder / name
    path.write_text(snippet.text, encoding="utf-8")
    if "family" in content:
        load_suite(path)
    if "gates" in content:
        assert read_gates(read_yaml(path), lambda suite: load_suite(folder / suite if suite.startswith(".") else suite))
    if "mitigate" in content:
        assert read_mitigations(read_yaml(path))
    if snippet.title is None:
        path.unlink()


def indented_commands(page: str) -> Iterator[list[str]]:
    """Yield the words of each line of an indented block that is a command of ours."""
    for block in _INDENTED.findall(page):
        for line in block.splitlines():
            if re.match(r"(\.\S+/)?(python -m )?(pytest|genderbias)\b", line.strip()):
                yield line.split()


def in_this_process(words: list[str]) -> tuple[str, int]:
    """Run ``pytest`` in the current folder and in this process, outside of a test."""
    return run_here(Path.cwd())(words[1:])


def main(page: Path) -> int:
    """Print what each command of a page prints now, and return how many snippets do not hold."""
    text = page.read_text(encoding="utf-8")
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "project"
        folder.mkdir()
        prepare(folder, text)
        os.chdir(folder)

        def run(words: list[str]) -> tuple[str, int]:
            printed, status = in_this_process(words)
            print(f"$ {shlex.join(words)}\n{printed}exit status {status}\n")
            return printed, status

        story, wrong = Story(folder, run), 0
        for snippet in snippets(text):
            try:
                story.tell(snippet)
            except AssertionError as error:
                wrong += 1
                print(f"{page}:{snippet.line}: {str(error).partition(chr(10))[0]}")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1]).resolve()), 1))
