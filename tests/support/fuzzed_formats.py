"""The formats that the package reads, each with small valid files and what a reader makes of them."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from support.baseline_books import write_entries
from support.mutations import CSV, JSON, JSONL, TSV, YAML, Syntax
from support.run_reports import run_report

from pytest_genderbias import load_model, load_suite, load_wordlist, measure
from pytest_genderbias.datasets import (
    bbq_questions,
    biographies,
    conll,
    coreference_output,
    gold_pairs,
    group_texts,
    item_results,
    pronoun_sentences,
    sentence_pairs,
    stored_replies,
)
from pytest_genderbias.datasets.corpora import Vocabulary, feed_corpus, read_passages
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.engines import results_files
from pytest_genderbias.gates.book import entry_of, items_path, read_book, read_items
from pytest_genderbias.gates.book_places import book_path
from pytest_genderbias.gates.gate_file import read_gates
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.mitigation.harness.file import read_mitigations
from pytest_genderbias.models.config import PROJECTED_LAYERS
from pytest_genderbias.models.hidden_layers import PROJECTION_FILE, project_hidden_layers, save_projections
from pytest_genderbias.models.predictions import read_predictions
from pytest_genderbias.models.vectors import read_vectors
from pytest_genderbias.plugin.cache import describe
from pytest_genderbias.reports.history import read_history, write_history
from pytest_genderbias.reports.model_card import with_results
from pytest_genderbias.reports.run_report import read_report
from pytest_genderbias.scoring.store import ScoreStore
from pytest_genderbias.suites.controls import read_controls
from pytest_genderbias.suites.families.shared.paraphrases import TemplateSets
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.space import CaseSpace
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.plain_files import parse_json, read_whole

Style = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Format:
    """A format of files.

    Attributes:
        name: its name.
        files: valid files: name and content. One of them is mutated.
        read: reads a file and returns its meaning, which can be compared.
        syntax: how the format writes values, if it has one.
        beside: other files of the folder.
        styles: changes of the bytes that keep the meaning.
        sealed: whether the file has a checksum: it is refused, or read as it was written.
    """

    name: str
    files: tuple[tuple[str, bytes], ...]
    read: Callable[[Path], object]
    syntax: Syntax | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict)
    styles: tuple[Style, ...] = ()
    sealed: bool = False


def _bom(content: bytes) -> bytes:
    return b"\xef\xbb\xbf" + content


def _carriage_returns(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def _empty_line(content: bytes) -> bytes:
    return content + b"\n"


def _spaces(content: bytes) -> bytes:
    return json.dumps(json.loads(content), indent=3).encode()


def _reversed_keys(content: bytes) -> bytes:
    return b"\n".join(json.dumps(dict(reversed(json.loads(x).items()))).encode() for x in content.splitlines())


def _block_style(content: bytes) -> bytes:
    return (
        b"# a comment\n" + yaml.safe_dump(yaml.safe_load(content), default_flow_style=False, sort_keys=False).encode()
    )


_LINES, _WITH_BOM = (_carriage_returns, _empty_line), (_bom, _carriage_returns, _empty_line)


def _lines(*lines: str) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def _objects(*rows: Mapping[str, object]) -> bytes:
    return _lines(*(json.dumps(row) for row in rows))


# Suites, word lists, gates and mitigations.

_HEAD = "title: t\nsource: s\nlicence: l\nlanguage: en\n"
PERSONS = (
    f"list: persons\n{_HEAD}attributes: {{era: when}}\nentries:\n  - {{word: nurse, group: female, era: new,"
    " women_share: 90}\n  - {word: cook, group: male, class: [a, b]}\n  - {word: heir, group: female, article: an,"
    " noun: true}\n  - {word: poet, group: male}\n"
)
_LISTS = {
    "persons.yaml": PERSONS.encode(),
    "pairs.yaml": (
        (
            f"list: pairs\n{_HEAD}groups: [male, female]\npairs:\n  - [king, queen]\n"
            "  - {male: [him, his], female: her, default: {her: him}, by_pos: {her: {object: him}}}\n"
        ).encode()
    ),
    "table.yaml": f"list: table\n{_HEAD}columns: [word, group, count]\nrows:\n  - [a, x, 1]\n  - [b, y, 2]\n".encode(),
}
_SUITES = {
    "own.yaml": (
        f"suite: own\nfamily: disco\n{_HEAD}groups: [female, male]\nperson: {{list: ./persons.yaml, where: {{group:"
        " [female, male]}, form: 'the {word}'}\ntemplates: ['{person} likes {blank}.', '{person} is"
        " {a:person} {blank}.']\nparaphrases: ['{person} loves {blank}.']\noptions: {top_k: 2}\n"
    ),
    "two.yaml": (
        f"suite: two\nfamily: nli\n{_HEAD}premise: 'The {{who}} sees {{a:what}} {{what}}.'\nhypothesis: 'The {{whom}}"
        " sees {a:what} {what}.'\nslots:\n  who: {list: ./persons.yaml}\n  whom: {list: pronouns}\n  what:"
        " {list: [./table.yaml, ./pairs.yaml]}\ncombine:\n  typed: [{what: {list: table}}]\n  crossed:"
        " [{}]\nparaphrases: [{premise: 'This {who} sees {a:what} {what}.', hypothesis: 'This {whom} sees"
        " {a:what} {what}.'}]\n"
    ),
    "three.yaml": (
        f"suite: three\nfamily: lm-occupation\n{_HEAD}occupation: {{list: ./persons.yaml}}\nprefixes: [{{male: 'He is"
        " {a:occupation} {occupation}', female: 'She is {a:occupation} {occupation}'}]\nparaphrases: [{male:"
        " 'He works as {a:occupation} {occupation}', female: 'She works as {a:occupation} {occupation}'}]\n"
    ),
}
_GATES = {
    "suite": "./own.yaml",
    "statistic": "significant_fills",
    "at_most": 2.5,
    "name": "g",
    "models": ["m"],
    "settings": {"limit": 10, "seed": 3},
}
_MITIGATION = {
    "method": ["wed", {"name": "projection", "components": 2}],
    "models": ["a"],
    "seeds": [3, 4],
    "budget": {"accuracy": 0.05},
    "reduces": [{"suite": "./two.yaml", "by": 0.3, "overshoot": 0.1, "settings": {"limit": 100}, "name": "short"}],
}
_TRAINING = {
    "method": {"name": "cda", "sides": "one"},
    "recipe": {"name": "lstm", "data": "./texts", "arguments": {"warmup_steps": 3}},
    "from_nothing": True,
    "reduces": [{"suite": "./three.yaml", "by": 0}],
}
_TRIED = {
    "method": "dropout",
    "recipe": {"name": "masked-lm", "data": "./texts"},
    "grid": {"dropout.hidden": [0.1, 0.2], "masked-lm.steps": [5, 6]},
    "best": {"lowest": "./three.yaml/aggregate_bias", "within": {"perplexity": "5%"}, "settings": {"limit": 100}},
    "seeds": 4,
    "choose_on": [0, 2],
    "reduces": [{"suite": "./three.yaml", "by": 0}],
}


def _packaged_suites() -> tuple[tuple[str, bytes], ...]:
    own = tuple((name, text.encode()) for name, text in _SUITES.items())
    folder = packaged.folder("fixtures")
    return own + tuple((path.name, path.read_bytes()) for path in sorted(folder.glob("*.yaml")))


def _packaged_lists() -> tuple[tuple[str, bytes], ...]:
    small = [path for path in sorted(packaged.folder("wordlists").glob("*.yaml")) if path.stat().st_size < 6_000]
    return (*_LISTS.items(), *((path.name, path.read_bytes()) for path in small))


def _control_items() -> tuple[tuple[str, bytes], ...]:
    """Return items from six places of each file, which a model of one habit does not answer alike."""
    files = sorted((packaged.folder("fixtures") / "controls" / "en").glob("*.yaml"))
    contents = {path.name: yaml.safe_load(path.read_bytes()) for path in files}
    for content in contents.values():
        items = content["items"]
        starts = range(0, len(items), max(4, len(items) // 6))
        content["items"] = [item for start in starts for item in items[start : start + 4]]
    return tuple((name, yaml.safe_dump(content).encode()) for name, content in contents.items())


def _suite_meaning(path: Path) -> object:
    """Return the digest, the first sentences of each question that needs no data, and the paraphrases."""
    suite = load_suite(path)
    options = resolve_options(suite.family.options, suite.defaults, suite.name)
    context = Context(suite.family.roles[0], ("a", "b"), DataFolder())
    questions = suite.family.questions(suite.body, options, context)
    sentences = {
        name: question.cases.sentences(np.arange(min(3, question.cases.n_cases)))
        for name, question in questions.items()
        if isinstance(question.cases, CaseSpace)
    }
    body = vars(suite.body).values() if is_dataclass(suite.body) else ()
    return suite.digest, sentences, [sets.paraphrases for sets in body if isinstance(sets, TemplateSets)]


def _list_meaning(path: Path) -> object:
    words = load_wordlist(str(path))
    return [(entry.word, dict(entry.attributes)) for entry in words.entries], words.title


def _control_meaning(path: Path) -> object:
    controls = read_controls(path)
    return controls.name, controls.language, controls.content, controls.classes.tolist()


def _gate_meaning(path: Path) -> object:
    data = read_yaml(path)
    gates = (
        [(gate.name, gate.statistic, gate.suite.digest, gate.limit) for gate in read_gates(data)]
        if "gates" in data
        else []
    )
    return gates, [reduction.name for reduction in read_mitigations(data)] if "mitigate" in data else []


# Data sets.

_SNLI = _objects(
    {"sentence1": "A man eats.", "sentence2": "He eats.", "gold_label": "entailment"},
    {"sentence1": "A man eats.", "sentence2": "He sings.", "gold_label": "-"},
    {"sentence1": "A dog eats.", "sentence2": "It sleeps.", "gold_label": "contradiction"},
)
_STS = _lines(
    "main-news\tx\t2012\t1\t2.5\tA man eats.\tA man is eating.", "main-news\tx\t2012\t2\t0\tA dog.\tA cat.\tsource"
)
_WINOBIAS = _lines(
    "1 The CEO met [the construction worker] because [he] lost [his] key.", "2 [A nurse] met the CEO, [she] said."
)
_WINOGENDER = _lines(
    "sentid\tsentence",
    "technician.customer.1.male.txt\tThe technician told the customer that he could pay with cash.",
    "technician.someone.0.female.txt\tThe technician told someone that she had completed the repair.",
)
_WINOGENDER_TEMPLATES = _lines(
    "occupation(0)\tother-participant(1)\tanswer\tsentence",
    "technician\tcustomer\t1\tThe $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN could pay with cash.",
)
_GAP = _lines(
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL",
    'development-1\tAnn said "Bea" saw her.\ther\t19\tAnn\t0\tTRUE\tBea\t10\tFALSE\t',
    "development-2\tBob said Bill saw him.\thim\t18\tBob\t0\tFALSE\tBill\t9\tFALSE\t",
)
_BIOS = _objects(
    {"id": 1, "text": "She heals.", "profession": "nurse", "gender": "F", "name": "Ann"},
    {"id": 2, "text": "He counts.", "profession": "accountant", "gender": "M"},
)
_HUB_BIOS = _lines("hard_text,profession,gender", '"She heals, and cares.",13,1', "He counts.,0,0")
_CROWS = _lines(
    ",sent_more,sent_less,stereo_antistereo,bias_type",
    '0,He is a CEO.,"She, is a CEO.",stereo,gender',
    "1,Old.,Young.,antistereo,age",
)
_BEC = _lines(
    "Sentence\tTemplate\tPerson\tGender\tProfession\tProf_Gender",
    "He is a cook.\t1\the\tmale\tcook\tbalanced",
    "She is a cook.\t1\tshe\tfemale\tcook\tbalanced",
    "My father is a judge.\t2\tmy father\tmale\tjudge\tmale",
    "My mother is a judge.\t2\tmy mother\tfemale\tjudge\tmale",
)
_STEREOSET = json.dumps(
    {
        "version": "1",
        "data": {
            "intrasentence": [
                {
                    "id": "a",
                    "bias_type": "gender",
                    "sentences": [
                        {"gold_label": "stereotype", "sentence": "She cares."},
                        {"gold_label": "anti-stereotype", "sentence": "She leads."},
                        {"gold_label": "unrelated", "sentence": "She blue."},
                    ],
                }
            ]
        },
    }
).encode()
_OWN_PAIRS = _lines(
    "id,stereotypical,anti_stereotypical,group", "a,She cares.,He cares.,gender", "b,Old is slow.,Young is slow.,age"
)
_EUROGEST = _lines(
    "Language,GEST_sentence,French,French,German,German,stereotype_number",
    "Prompt,,the man said,the woman said,the man said,the woman said,",
    '0,I am shy.,"Seul, je suis timide.","Seule, je suis timide.",,,2',
    "1,I am strong.,Je suis fort.,Je suis forte.,,,8",
)
_BBQ = _objects(
    *(
        {
            "example_id": i, "question_index": "1", "question_polarity": polarity, "context_condition": condition,
            "answer_info": {"ans0": ["woman", "woman"], "ans1": ["Unknown", "unknown"], "ans2": ["man", "man"]},
            "additional_metadata": {"stereotyped_groups": ["F"]}, "context": "A woman and a man were late.",
            "question": "Who was it?",
            "ans0": "The woman", "ans1": "Unknown", "ans2": "The man", "label": label,
        }
        for i, (polarity, condition, label) in enumerate([("neg", "ambig", 1), ("nonneg", "disambig", 2)])
    )
)  # fmt: skip
_DISCRIM = _objects(
    *(
        {
            "filled_template": f"The applicant is a {age}-year-old white {gender}. Should the request be granted?",
            "decision_question_id": question, "age": age, "gender": gender, "race": "white",
        }
        for question in (0, 1) for age in (20, 60) for gender in ("female", "male")
    )
)  # fmt: skip
_HONEST = _lines(
    "template_masked\tcategory\ttype\tnumber", "the aunt is a [M].\tfemale\toccupation\tsingular",
    "the uncle is a [M].\tmale\toccupation\tsingular",
)  # fmt: skip
_HURTLEX = _lines("id\tlemma\tlevel", "EN1\tfool\tconservative", "EN2\tpaper\tinclusive")
_BBQ_TEMPLATES = _lines(
    "Q_id,Subcategory,Ambiguous_Context,Disambiguating_Context,Names,Lexical_diversity,Proper_nouns_only,Question_negative_stereotype,"
    "Question_non_negative,Answer_negative,Answer_non_negative,Known_stereotyped_groups,NAME1_info,NAME2_info",
    '1,adult,A {{NAME1}} met a {{NAME2}} at the {{WORD1}}.,The {{NAME1}} led.,,"WORD1: [bar, club]",,Who followed?,Who'
    ' led?,The {{NAME2}},The {{NAME1}},"[""F""]",,',
    '2,,{{NAME1}} met {{NAME2}}.,{{NAME1}} led.,,,TRUE,Who followed?,Who led?,{{NAME2}},{{NAME1}},"[""F""]",,',
    "3,,A {{NAME1}} met a {{NAME2}}.,The {{NAME1}} led.,NAME1: [wife]; NAME2: [husband],,,Who followed?,Who led?,The"
    ' {{NAME2}},The {{NAME1}},"[""F""]",F,M',
)
_BBQ_NAMES = _lines("Name,First_last,gender", "Ann,first_only,F", "Bob,first_only,M", "Smith,last,")
_ANSWERS = _objects({"id": "Religion-0", "answer": "The woman"}, {"id": "Religion-1", "answer": "Unknown."})
_MEASURED = _objects(*({"id": i, "by": {"sex": "FM"[i % 2]}, "ok": i % 3 == 0} for i in range(4)))
_RESULTS_LOG = json.dumps({"samples": [json.loads(line) for line in _MEASURED.splitlines()]}).encode()
_CONLL = _lines(
    "#begin document (doc); part 001",
    "doc 1 0 Ann NNP * - - - - * (2)",
    "doc 1 1 told VB * - - - - * -",
    "",
    "doc 1 0 her PRP * - - - - * (1|(2)",
    "doc 1 1 cook NN * - - - - * 1)|(3)",
    "#end document",
)
_COREFERENCE = _objects(
    {
        "id": "a",
        "sentence": "The cook met a nurse as she left.",
        "clusters": [[[0, 8, "The cook"], [24, 27]]],
        "pronoun_scores": {"she@24": {"(none)": -0.2, "The cook@0": 1.4, "a nurse@13": 0.3}},
    },
    {"id": "b", "clusters": [], "pronoun_scores": {}},
)
_TEXT = _lines(
    "=== one ===", 'She sings, he reads. The nurse said: "I\'d go."', "", " = Two = ", "He sings , she reads ."
)
_DOCUMENTS = _objects({"text": "She sings, he reads."}, {"sentences": ["He sings .", ["She", "reads", "."]]})


def _corpus_meaning(path: Path) -> object:
    all_ids: list[int] = []
    all_ends: list[int] = []

    def count(ids: Any, ends: Any) -> None:
        all_ids.extend(ids.tolist())
        all_ends.extend(ends.tolist())

    vocabulary = Vocabulary()
    feed_corpus(path, vocabulary, count)
    read_passages([path], 20, size=5)
    return vocabulary.words, all_ids, all_ends


# Predictions and vectors.

_PREDICTED: tuple[dict[str, Any], ...] = (
    {"id": "a", "prediction": "nurse", "gold": "nurse", "group": "F", "p_nurse": 0.75, "p_judge": 0.25},
    {"id": "b", "prediction": "nurse", "gold": "judge", "group": "M", "p_nurse": 0.5, "p_judge": 0.5},
    {"id": "c", "prediction": "judge", "gold": "judge", "group": "male", "p_nurse": 0.0, "p_judge": 1.0},
)
_MAPPED = [
    {key: row[key] for key in ("id", "prediction", "gold", "group")}
    | {"probabilities": {"nurse": row["p_nurse"], "judge": row["p_judge"]}}
    for row in _PREDICTED
]


def _joined(separator: str, rows: Iterable[Mapping[str, object]]) -> bytes:
    rows = list(rows)
    return _lines(separator.join(rows[0]), *(separator.join(map(str, row.values())) for row in rows))


def _predictions_meaning(path: Path) -> object:
    table = read_predictions(path)
    probabilities = None if table.probabilities is None else table.probabilities.tolist()
    assert probabilities is None or np.isfinite(probabilities).all()
    return (
        table.ids,
        table.labels,
        table.predicted.tolist(),
        table.gold.tolist(),
        table.groups,
        table.group.tolist(),
        probabilities,
    )


def _parquet_predictions() -> bytes:
    import pyarrow
    import pyarrow.parquet

    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(_PREDICTED)), written)
    return written.getvalue()


def _vectors_meaning(path: Path) -> object:
    vectors = read_vectors(path)
    assert np.isfinite(vectors.matrix).all()
    return dict(vectors.words), vectors.matrix.tolist()


_MATRIX = np.asarray([[1, 0.5], [0, -2], [3, 4]], np.float32)


def _npy(array: Any) -> bytes:
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()


def _npz(**arrays: Any) -> bytes:
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()


def _safetensors() -> bytes:
    from safetensors.numpy import save

    return bytes(save({"vectors": _MATRIX}))


# Measurements, baselines and the score cache.


class _Writer:
    """A causal LM that prefers one word."""

    fingerprint = "writer"

    def continuation_log_probs(self, prefixes: list[str], continuations: list[str]) -> Any:
        return np.array(
            [-1.0 - 0.1 * ("nurse" in c) - 0.01 * len(p) for p, c in zip(prefixes, continuations, strict=True)]
        )


@cache
def _measurement() -> Measurement:
    return measure("lm-occupation", _Writer(), limit=24, cache=None)


def _measurement_meaning(path: Path) -> object:
    return Measurement.from_dict(parse_json(read_whole(path, 1 << 24), str(path))).to_dict()


@cache
def _stored(folder: Path) -> Path:
    """Write a book with one entry into a folder and return its path."""
    new = entry_of(_measurement(), gated={"aggregate_bias": 0.1})
    anchor = replace(new.entry.origin, items_sha256=None, date="2026-01-31")
    entry = replace(new.entry, date="2026-03-31", anchor=anchor)
    return write_entries(folder, "m", "t.py", {"lm-occupation": replace(new, entry=entry)})


def _book(folder: Path) -> tuple[bytes, str, bytes]:
    """Return the content of a book, and the name and content of its item file."""
    book = _stored(folder)
    (entry,) = read_book(book).values()
    items = items_path(book, "lm-occupation", str(entry.items_sha256))
    return book.read_bytes(), items.name, items.read_bytes()


def _book_meaning(path: Path) -> object:
    entries = read_book(path)
    for name, entry in entries.items():
        read_items(path, name, entry)
    return {name: entry.to_dict() for name, entry in entries.items()}


def _items_meaning(path: Path) -> object:
    """Return the sums of the item file beside the book ``t.py.json``."""
    book = path.with_name("t.py.json")
    (entry,) = read_book(book).values()
    stored = read_items(book, "lm-occupation", entry)
    assert stored is not None
    return {name: stored.item_sums(name).sums.tolist() for name in stored.sums}


_SCORES = np.arange(12.0).reshape(6, 2, 1)


def _score_file() -> bytes:
    payload = _npy(_SCORES)
    return hashlib.sha256(payload).digest() + payload


def _scores_meaning(path: Path) -> object:
    """Return the units that a store reads if this file is the only one of its entry, and the listing of the cache."""
    store = ScoreStore(path.parent, {"name": "a"})
    assert store.folder is not None
    store.folder.mkdir(exist_ok=True)
    (store.folder / path.name).write_bytes(path.read_bytes())
    (store.folder / "about.json").write_bytes((path.parent / "about.json").read_bytes())
    assert describe(path.parent, 1, 100).isascii()
    found = np.full_like(_SCORES, -1)
    done = store.read(found)
    return found[:done].tolist() or _SCORES.tolist()


def _about_meaning(path: Path) -> object:
    store = ScoreStore(path.parent, {"name": "a"})
    assert store.folder is not None
    store.folder.mkdir(exist_ok=True)
    (store.folder / "0000000000-0000000006.npy").write_bytes(_score_file())
    (store.folder / "about.json").write_bytes(path.read_bytes())
    return describe(path.parent, 1, 100).replace(str(path.parent), "").isprintable()


# Checkpoints.


def _checkpoint_formats(folder: Path) -> list[Format]:
    from support.tiny_checkpoints import make_network, save_checkpoint

    save_checkpoint("bert-nli", folder)
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    written = tuple((name, content) for name, content in files.items() if name.endswith(".json"))
    weights = (("model.safetensors", files["model.safetensors"]),)
    network = make_network("bert-nli")
    project_hidden_layers(network, {1: np.eye(16)[:, :1]})
    save_projections(network, folder)
    bases = ((PROJECTION_FILE, (folder / PROJECTION_FILE).read_bytes()),)
    projected = {**json.loads(files["config.json"]), PROJECTED_LAYERS: [[1]]}
    return [
        Format("checkpoint-json", written, _checkpoint_meaning, JSON, files, (_spaces,)),
        Format("checkpoint-weights", weights, _checkpoint_meaning, beside=files),
        Format(
            "checkpoint-projection",
            bases,
            _checkpoint_meaning,
            beside={**files, "config.json": json.dumps(projected).encode()},
        ),
    ]


def _adapter_formats(folder: Path) -> list[Format]:
    """Return the formats of an adapter of one of the demo models; none where peft is not installed."""
    if importlib.util.find_spec("peft") is None:
        return []
    import peft

    network = load_model("demo-mlm", device="cpu").backend.network
    wrapped = peft.get_peft_model(network, peft.LoraConfig(r=2, target_modules=["query"], init_lora_weights=False))
    wrapped.save_pretrained(folder)
    files = {name: (folder / name).read_bytes() for name in ("adapter_config.json", "adapter_model.safetensors")}
    (config, content), weights = files.items()
    return [
        Format("adapter-config", ((config, content),), _adapter_meaning, JSON, files, (_spaces,)),
        Format("adapter-weights", (weights,), _adapter_meaning, beside=files),
    ]


def _adapter_meaning(path: Path) -> object:
    model = load_model(f"adapter:{path.parent}@demo-mlm", device="cpu")
    return model.role, measure("disco-terms", model, limit=2, cache=None).values


def _checkpoint_meaning(path: Path) -> object:
    """Return labels and figures of a checkpoint."""
    model = load_model(str(path.parent), device="cpu")
    return model.role, measure("nli-religion", model, limit=4, cache=None).values


def _results_meaning(path: Path) -> object:
    rows = item_results.Results(path, results_files.read_results(path))
    found = item_results.take_values(
        rows, {"id": "id", "group": "by.sex", "value": "ok"}, ("female", "male"), 1.0, True
    )
    return found.ids.tolist(), found.group.tolist(), found.values.tolist()


def _data_formats() -> list[Format]:
    def table(name: str, file: str, content: bytes, read: Callable[[Path], object], **more: Any) -> Format:
        syntax = {".jsonl": JSONL, ".csv": CSV, ".tsv": TSV}.get(Path(file).suffix)
        return Format(name, ((file, content),), read, syntax, styles=_WITH_BOM, **more)

    return [
        table("snli", "snli.jsonl", _SNLI, gold_pairs.read_inference),
        Format("stsb", (("sts-dev.csv", _STS),), gold_pairs.read_similarity, TSV,
            styles=(_bom, _carriage_returns)),
        Format("winobias", (("pro_stereotyped_type1.txt.dev", _WINOBIAS),), pronoun_sentences.read_winobias,
            styles=_WITH_BOM),
        table("winogender", "all_sentences.tsv", _WINOGENDER, pronoun_sentences.read_winogender),
        table("winogender-templates", "templates.tsv", _WINOGENDER_TEMPLATES, pronoun_sentences.read_winogender),
        table("gap", "gap-development.tsv", _GAP, pronoun_sentences.read_gap),
        table("biographies", "bios.jsonl", _BIOS, biographies.read_biographies),
        table("hub-biographies", "bios.csv", _HUB_BIOS, biographies.read_biographies),
        table("crows-pairs", "crows.csv", _CROWS, sentence_pairs.read_crows_pairs),
        table("bec-pro", "bec.tsv", _BEC, sentence_pairs.read_bec_pro),
        Format("stereoset", (("dev.json", _STEREOSET),), sentence_pairs.read_stereoset, JSON,
            styles=(*_WITH_BOM, _spaces)),
        table("own-pairs", "pairs.csv", _OWN_PAIRS, sentence_pairs.read_own_pairs),
        table("eurogest", "eurogest.csv", _EUROGEST, sentence_pairs.read_own_pairs),
        table("bbq", "Religion.jsonl", _BBQ, bbq_questions.read_bbq),
        table("discrim-eval", "explicit.jsonl", _DISCRIM,
            lambda path: group_texts.read_discrim_eval(path, "gender", ("female", "male"))),
        table("honest", "en_template.tsv", _HONEST, lambda path: group_texts.read_honest(path, ("female", "male"))),
        table("hurtlex", "hurtlex_EN.tsv", _HURTLEX, lambda path: group_texts.read_hurtlex(path, "inclusive")),
        Format("bbq-templates", (("templates_gender_identity.csv", _BBQ_TEMPLATES),),
            lambda path: bbq_questions.make_bbq_gender(path, path.parent / "vocabulary_proper_names.csv"), CSV,
            {"vocabulary_proper_names.csv": _BBQ_NAMES}, _WITH_BOM),
        table("results", "run.jsonl", _MEASURED, _results_meaning),
        Format("results-json", (("run.json", _RESULTS_LOG),), _results_meaning, JSON, styles=_WITH_BOM),
        table("chat-answers", "run.jsonl", _ANSWERS, lambda path: stored_replies.read_stored_answers(path).lines),
        Format("conll", (("a.v4_gold_conll", _CONLL),), lambda path: list(conll.read_conll(path)), styles=_WITH_BOM),
        Format(
            "coreference-output", (("out.jsonl", _COREFERENCE),),
            lambda path: coreference_output.read_coreference_output(path).lines, JSONL,
            styles=(*_WITH_BOM, _reversed_keys),
        ),
        Format("corpus", (("a.txt", _TEXT),), _corpus_meaning, styles=(_bom, _carriage_returns)),
        Format("corpus-documents", (("a.jsonl", _DOCUMENTS),), _corpus_meaning, JSONL, styles=_WITH_BOM),
        Format("gzip", (("a.txt.gz", gzip.compress(_TEXT)), ("a.jsonl.gz", gzip.compress(_DOCUMENTS))),
            _corpus_meaning),
    ]  # fmt: skip


#: A model card with results of others and of ours.
_CARD = b"""---
license: mit
model-index:
- name: m
  results:
  - task: {type: nli}
    metrics: [{type: accuracy, value: 0.9}]
  - task: {type: other}
    dataset: {type: pytest-genderbias-tiny}
# of the Hub
tags: [nli]
---
# A model
"""
_RESULTS: list[dict[str, object]] = [
    {"name": "n", "results": [{"dataset": {"type": "pytest-genderbias-tiny"}, "metrics": [0.5]}]}
]


def _card_meaning(path: Path) -> object:
    """Return the lines of the card with other results of ours. To write it twice changes nothing."""
    text = with_results(read_whole(path, 2**24), _RESULTS, str(path))
    assert with_results(text, _RESULTS, str(path)) == text
    return text.split()


def _report_meaning(path: Path) -> object:
    return read_report(path).to_dict()


def _history_meaning(path: Path) -> object:
    return [trace.to_dict() for trace in read_history(path)]


def _history(folder: Path) -> bytes:
    for measured in (run_report(), replace(run_report(), failures=("another run",))):
        write_history(measured, folder / "made.db")
    return (folder / "made.db").read_bytes()


@cache
def formats(folder: Path) -> dict[str, Format]:
    """Return all formats by name. Baselines are made in a folder."""
    book, items_name, items = _book(folder)
    suites = {**_LISTS, **{name: text.encode() for name, text in _SUITES.items()}}
    about = json.dumps({"suite": "nli", "model": "m", "cases_per_unit": 2, "cases": 12}).encode()
    vocabulary = {"vocab.txt": b"she\nhe\nnurse\n"}
    known = [
        Format("suite", _packaged_suites(), _suite_meaning, YAML, _LISTS, (_bom, _carriage_returns, _block_style)),
        Format("word-list", _packaged_lists(), _list_meaning, YAML, styles=(_bom, _carriage_returns, _block_style)),
        Format("control-items", _control_items(), _control_meaning, YAML,
            styles=(_bom, _carriage_returns, _block_style)),
        Format("gates", (("g.bias.yaml", yaml.safe_dump({"gates": [_GATES]}).encode()),), _gate_meaning, YAML, suites,
            (_bom, _block_style)),
        Format(
            "mitigations", (("m.bias.yaml", yaml.safe_dump({"mitigate": [_MITIGATION, _TRAINING, _TRIED]}).encode()),),
            _gate_meaning, YAML, suites,
            (_bom, _block_style),
        ),
        *_data_formats(),
        *_checkpoint_formats(folder / "checkpoint"),
        *_adapter_formats(folder / "adapter"),
        Format("predictions-csv", (("run.csv", _joined(",", _PREDICTED)),), _predictions_meaning, CSV,
            styles=_WITH_BOM),
        Format("predictions-tsv", (("run.tsv", _joined("\t", _PREDICTED)),), _predictions_meaning, TSV,
            styles=_WITH_BOM),
        Format(
            "predictions-jsonl", (("run.jsonl", _objects(*_PREDICTED)), ("mapped.jsonl", _objects(*_MAPPED))),
            _predictions_meaning, JSONL,
            styles=(*_WITH_BOM, _reversed_keys),
        ),
        Format("vectors-text", (("a.vec", b"3 2\nshe 1 0.5\nhe 0 -2\nnurse 3 4\n"), ("b.txt", b"she 1 0.5\nhe 0 -2\n")),
            _vectors_meaning),
        Format("vectors-npz", (("a.npz", _npz(vectors=_MATRIX, words=np.array(["she", "he", "nurse"]))),),
            _vectors_meaning),
        Format("vectors-npy", (("a.npy", _npy(_MATRIX)),), _vectors_meaning, beside=vocabulary),
        Format("vectors-safetensors", (("a.safetensors", _safetensors()),), _vectors_meaning, beside=vocabulary),
        Format("measurement", (("m.json", json.dumps(_measurement().to_dict()).encode()),), _measurement_meaning, JSON,
            styles=(_bom, _spaces)),
        Format("report", (("r.json", json.dumps(run_report().to_dict()).encode()),), _report_meaning, JSON,
            styles=(_bom, _spaces)),
        Format("history", (("runs.db", _history(folder)),), _history_meaning),
        Format("model-card", (("README.md", _CARD),), _card_meaning, styles=_WITH_BOM),
        Format("baseline", (("t.py.json", book),), _book_meaning, JSON, {items_name: items}, (_empty_line, _spaces)),
        Format("baseline-items", ((items_name, items),), _items_meaning, beside={"t.py.json": book}, sealed=True),
        Format("scores", (("0000000000-0000000006.npy", _score_file()),), _scores_meaning, beside={"about.json": about},
            sealed=True),
        Format("cache-description", (("about.json", about),), _about_meaning, JSON, sealed=True),
    ]  # fmt: skip
    if importlib.util.find_spec("pyarrow") is not None:
        known.append(Format("predictions-parquet", (("run.parquet", _parquet_predictions()),), _predictions_meaning))
    assert book_path(folder, "m", "t.py") == _stored(folder)
    return {known_format.name: known_format for known_format in known}


#: The names of the formats; pyarrow is optional.
NAMES = (
    "suite", "word-list", "control-items", "gates", "mitigations", "snli", "stsb", "winobias", "winogender",
    "winogender-templates", "gap", "biographies", "hub-biographies", "crows-pairs", "bec-pro", "stereoset", "own-pairs",
    "eurogest", "bbq", "discrim-eval", "bbq-templates", "results", "results-json", "chat-answers", "conll",
    "coreference-output", "corpus", "corpus-documents", "gzip",
    "predictions-csv", "predictions-tsv", "predictions-jsonl", "predictions-parquet", "vectors-text", "vectors-npz",
    "vectors-npy", "vectors-safetensors", "measurement", "report", "history", "model-card", "baseline",
    "baseline-items", "scores", "cache-description", "checkpoint-json", "checkpoint-weights", "checkpoint-projection",
    "adapter-config", "adapter-weights",
)  # fmt: skip
#: Files of each format: a small number, or as many as ``FUZZ_FILES`` says.
EXAMPLES = int(os.environ.get("FUZZ_FILES", "12"))
