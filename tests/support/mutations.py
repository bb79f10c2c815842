"""Mutations of valid files: of their values, if the format has a syntax, and of their bytes."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml
from hypothesis import strategies as st

#: What stands where something else belongs.
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 7, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", " ", "x", "0", "no", "é",
    "\x1b[31m\u202e", "\x00",
    "x" * 10_000, "{a}", "{word}{word}", "{blank}", "../x.yaml", "~nosuchuser/x", "~nosuchuser/x.yaml",
    "./" + "x" * 300 + ".yaml", "a\nb", '"', "[", "1e400", "NaN", "\ufeff",
    [], {}, [[]], [None], ["x", "x"], {"x": 1}, {"": {}}, [[["x"] * 3] * 3],
)  # fmt: skip
#: Bytes that mean something in one of the formats, or in none.
TOKENS: tuple[bytes, ...] = (
    b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x1b[2J", b"\r", b"\n", b"\r\n", b"\t",
    b",", b'"', b"'", b"[", b"]", b"{", b"}",
    b"[" * 100_000, b'{"a":' * 100_000, b"[" * 200, b"{" * 200, b'{"a":' * 200, b"- " * 200, b"9" * 5000, b"1e999",
    b"-1", b"NaN", b".inf", b"null", b"&a ", b"*a", b"!!x ", b"<<: ", b"? ", b"# ",
    b"---\n", b"=== x ===\n", b"#begin document x\n", b"#end document\n", b"(1", b"1)", b"\xe2\x80\xae",
    b"\xe2\x80\xa8", b" " * 300, b"a" * 5000, b"\x1f\x8b",
)  # fmt: skip
_TREE = ("drop", "double", "odd", "swap", "wrap", "deepen", "rename")
_BYTES = ("flip", "cut", "insert", "repeat", "truncate", "empty")


class Mutation(NamedTuple):
    """What is done, where (in ten-thousandths of the file), and with which of the values at hand."""

    kind: str
    where: int
    what: int


#: One to three mutations.
MUTATIONS = st.lists(
    st.builds(Mutation, st.sampled_from(_TREE + _TREE + _BYTES), st.integers(0, 9_999), st.integers(0, 9_999)),
    min_size=1,
    max_size=3,
)


@dataclass(frozen=True)
class Syntax:
    """How a format writes lists and mappings. ``dump`` raises an error for values that it cannot write."""

    parse: Callable[[bytes], Any]
    dump: Callable[[Any], bytes]


def _dump_jsonl(rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in (rows if isinstance(rows, list) else [rows]))


def _table(separator: str) -> Syntax:
    quoted = separator == ","

    def parse(content: bytes) -> list[list[str]]:
        lines = io.StringIO(content.decode(), newline="")
        return list(csv.reader(lines)) if quoted else [line.split(separator) for line in content.decode().splitlines()]

    def dump(rows: Any) -> bytes:
        written = io.StringIO(newline="")
        for row in rows if isinstance(rows, list) else [rows]:
            cells = [cell if isinstance(cell, str) else str(cell) for cell in (row if isinstance(row, list) else [row])]
            if quoted:
                csv.writer(written).writerow(cells)
            else:
                written.write(separator.join(cells) + "\n")
        return written.getvalue().encode()

    return Syntax(parse, dump)


YAML = Syntax(yaml.safe_load, lambda tree: str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)).encode())
JSON = Syntax(json.loads, lambda tree: json.dumps(tree).encode())
JSONL = Syntax(lambda content: [json.loads(line) for line in content.splitlines() if line.strip()], _dump_jsonl)
CSV, TSV = _table(","), _table("\t")


def mutate(content: bytes, syntax: Syntax | None, mutations: Sequence[Mutation]) -> bytes:
    """Return a mutated file: first its values, then its bytes. Values that the syntax cannot write are left as they
    were.
    """
    for mutation in mutations:
        if mutation.kind in _TREE and syntax is not None:
            try:
                content = syntax.dump(_mutate_tree(syntax.parse(content), mutation))
            except (ValueError, TypeError, RecursionError, yaml.YAMLError, csv.Error):
                continue
    for mutation in mutations:
        if mutation.kind in _BYTES:
            content = _mutate_bytes(content, mutation)
        elif syntax is None:  # a format of bytes: one that stands for another kind of value is a flipped bit
            content = _mutate_bytes(content, mutation._replace(kind="flip"))
    return content


def _paths(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a tree as the container and the key or index in it."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _paths(value)


def _mutate_tree(tree: Any, mutation: Mutation) -> Any:
    box = [copy.deepcopy(tree)]
    places = list(_paths(box))
    container, key = places[mutation.where * len(places) // 10_000]
    other, other_key = places[mutation.what * len(places) // 10_000]
    value = container[key]
    if mutation.kind == "drop" and container is not box:
        del container[key]
    elif mutation.kind == "double":
        if isinstance(container, list):
            container.insert(key, copy.deepcopy(value))
        else:
            container[f"{key}2"] = copy.deepcopy(value)
    elif mutation.kind == "odd":
        container[key] = copy.deepcopy(ODD[mutation.what % len(ODD)])
    elif mutation.kind == "swap":
        container[key] = copy.deepcopy(other[other_key])
    elif mutation.kind == "wrap":
        container[key] = [value] if mutation.what % 2 else {"x": value}
    elif mutation.kind == "deepen":
        for _ in range(2 + mutation.what % 100):
            value = [value] if mutation.what % 2 else {"x": value}
        container[key] = value
    elif mutation.kind == "rename" and isinstance(container, dict):
        container[str(ODD[mutation.what % len(ODD)])] = container.pop(key)
    return box[0]


def _mutate_bytes(content: bytes, mutation: Mutation) -> bytes:
    at, length = mutation.where * len(content) // 10_000, 1 + mutation.what % 40
    if mutation.kind == "flip" and content:
        return content[:at] + bytes([content[at] ^ (1 << mutation.what % 8)]) + content[at + 1 :]
    if mutation.kind == "cut":
        return content[:at] + content[at + length :]
    if mutation.kind == "repeat":
        return content[: at + length] + content[at:]
    if mutation.kind == "truncate":
        return content[:at]
    if mutation.kind == "empty":
        return b""
    return content[:at] + TOKENS[mutation.what % len(TOKENS)] + content[at:]
