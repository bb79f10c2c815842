"""Measure every packaged suite on a small real model, and store its picture as data, which the documentation draws.

    python scripts/suite_pictures.py --data=../shared/data --out=DIR      # DIR keeps what is made on the way

The models are those of ``scripts/what_suites_see.py``. At most 3,000 cases of a suite are scored.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.answered_suites import noise
from support.chat_models import PairedReplier, biased_decider, iat_chooser, winobias_resolver, winogender_resolver
from what_suites_see import CAREERS, LIMIT, MODELS, predict_careers

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.pronoun_sentences import read_winogender
from pytest_genderbias.errors import BiasError
from pytest_genderbias.reports.pictures import pictures_of
from pytest_genderbias.suites.families.winobias_pronouns import in_pairs

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "reference" / "suites" / "pictures"
OPTIONS = {
    "pronoun-occupation-": {"ability": "none: planted"},
    "lm-occupation-": {"ability": "none: planted"},
    "ceat": {"draws": 500},
    "probe": {"texts": "wiki_career"},
    "bbq": {"category": "religion"},
}
ANSWERS = "unifiedqa.jsonl"  #: written by this script
#: As ``MODELS``, of suites that the other script does not measure.
OTHERS: tuple[tuple[str, str, str], ...] = (
    ("unifiedqa-11b", ANSWERS, "bbq"),
    ("stories260k", "models/stories260k", "counterfactual-generation"),
    (
        "planted",
        "planted",
        "chat-iat decisions decisions-de decisions-es decisions-fr winobias-chat winogender-chat hiring-screen"
        " loan-reply reference-letter pronoun-occupation-de pronoun-occupation-es pronoun-occupation-fr"
        " lm-occupation-de lm-occupation-es lm-occupation-fr",
    ),
)
#: The smallest chat models cannot do these tasks, so a planted one shows what a picture looks like, and its title says
#: so.
PLANTED = {
    **{
        f"{family}-{language}": lambda body, data: form_writer(body)
        for family in ("pronoun-occupation", "lm-occupation")
        for language in ("de", "es", "fr")
    },
    "chat-iat": lambda body, data: iat_chooser(body, 0.3, noise=0.3),
    "decisions": lambda body, data: biased_decider(body, 0.3, noise=1.2),
    **{
        f"decisions-{language}": lambda body, data, language=language: biased_decider(
            body, 0.3, noise=1.2, ask=load_suite(f"decisions-{language}").ask
        )
        for language in ("de", "es", "fr")
    },
    "hiring-screen": lambda body, data: PairedReplier(body, (-0.1, 0.1), noise=0.1),
    "loan-reply": lambda body, data: PairedReplier(body, (0.1, 0.4, -0.1), noise=0.5),
    "reference-letter": lambda body, data: PairedReplier(body, (-0.03, 0.03), noise=0.05),
    "winobias-chat": lambda body, data: winobias_resolver(
        in_pairs(DataFolder(data).locate("winobias")[0]), 0.9, 0.7, neither=0.3
    ),
    "winogender-chat": lambda body, data: winogender_resolver(
        read_winogender(DataFolder(data).find("winogender")), 0.4, neither=0.3
    ),
}


def form_writer(body) -> SimpleNamespace:
    """Return a causal LM that prefers the form of women the more, the more women work in an occupation."""
    shares = {
        form: (share - 0.5) * (1 if of.startswith("female") else -1)
        for entry, share in zip(body.items.entries, body.shares(), strict=True)
        for of, form in entry.attributes["forms"].items()
    }

    def write(prefixes, continuations):
        pairs = zip(prefixes, continuations, strict=True)
        return [shares[word.strip()] + 1.5 * noise(prefix, word) - 9 for prefix, word in pairs]

    return SimpleNamespace(continuation_log_probs=write)


def write_answers(data: Path, out: Path) -> Path:
    """Write the answers of UnifiedQA 11B (format of RACE) that BBQ's authors published as a file of answers, and return
    it.
    """
    path = out / ANSWERS
    with gzip.open(data / "bbq" / "unifiedqa_predictions_Religion.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    answers = ({"id": f"Religion-{row['example_id']}", "answer": row["unifiedqa-t5-11b_pred_race"]} for row in rows)
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    return path


def picture(suite: str, name: str, path: str, data: Path, out: Path) -> str:
    """Measure a suite and store its first picture; return what is to be said of it."""
    made = {CAREERS: predict_careers, ANSWERS: write_answers}.get(path)
    folder, path = (data, path) if made is None else (out, made(data, out).name)
    prefix, _, rest = path.rpartition(":")
    spec: object = f"{prefix}:{folder / rest}" if prefix else str(folder / rest)
    if path == "planted":
        spec = PLANTED[suite](load_suite(suite).body, data)
    options = next((value for kind, value in OPTIONS.items() if suite.startswith(kind)), {})
    measurement = measure(suite, load_model(spec, name=name), data=data, limit=LIMIT, **options)
    pictures = pictures_of(measurement)
    if not pictures:
        return f"{suite}: no picture"
    PICTURES.mkdir(exist_ok=True)
    content = json.dumps(pictures[0].to_dict(finite=True), separators=(",", ":"), ensure_ascii=False)
    (PICTURES / f"{suite}.json").write_text(content + "\n", encoding="utf-8")
    return pictures[0].alt


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of real models and data sets")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of what is made on the way")
    parser.add_argument("--suites", nargs="*", help="only these")
    arguments = parser.parse_args()
    known = {suite for *_, suites in (*MODELS, *OTHERS) for suite in suites.split()}
    if unknown := set(arguments.suites or ()) - known:
        parser.error(f"no model for {', '.join(sorted(unknown))}; expected a name of MODELS or OTHERS")
    arguments.out.mkdir(parents=True, exist_ok=True)
    drawn: set[str] = set()
    for name, path, suites in (*MODELS, *OTHERS):
        for suite in suites.split():
            if suite in drawn or (arguments.suites and suite not in arguments.suites):
                continue
            drawn.add(suite)
            try:
                print(picture(suite, name, path, arguments.data.resolve(), arguments.out.resolve()), flush=True)
            except BiasError as error:
                print(f"{suite}: {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
