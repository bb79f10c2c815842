"""Classifiers of scikit-learn and spaCy as models, with the real libraries."""

import subprocess
import sys

import numpy as np
import pytest

from pytest_genderbias import from_sklearn, from_spacy, load_model, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError

TEXTS = ["She treats patients .", "He rules in court .", "She nurses the ill .", "He judges the case ."] * 5
JOBS = ["nurse", "judge"] * 10


@pytest.fixture
def fitted():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def fit(labels=JOBS, **settings):
        return make_pipeline(TfidfVectorizer(**settings), LogisticRegression()).fit(TEXTS, labels)

    return fit


@pytest.fixture
def biographies(tmp_path):
    """Return a file of labelled texts, in which women are found to be nurses and men to be judges."""
    path = tmp_path / "persons.csv"
    lines = ["text,label,group"]
    for i in range(60):
        job, pronoun = JOBS[i // 2 % 2], ("She", "He")[i % 2]
        lines.append(f"{pronoun} {'nurses the ill' if job == 'nurse' else 'judges the case'} {i} .,{job},{'FM'[i % 2]}")
    path.write_text("\n".join(lines) + "\n")
    return path


# scikit-learn


def test_a_pipeline_is_a_text_classifier(fitted, biographies):
    pipeline = fitted()
    model = from_sklearn(pipeline, name="tfidf")
    assert (model.name, model.role.kind, model.role.labels) == ("tfidf", "text-classifier", ("judge", "nurse"))
    assert from_sklearn(pipeline).name == "Pipeline"
    np.testing.assert_array_equal(model.backend.class_probabilities(TEXTS), pipeline.predict_proba(TEXTS))
    m = measure("bios", model, texts=str(biographies), cache=None)
    assert m.model == "tfidf"
    assert m.value is not None
    rows = biographies.read_text().splitlines()[1:]
    predicted = pipeline.predict([row.split(",")[0] for row in rows])
    assert m.values["accuracy"] == np.mean(predicted == [row.split(",")[1] for row in rows])


def test_a_pipeline_applies_to_no_suite_of_language_models(fitted):
    with pytest.raises(NotApplicableError, match="Pipeline is a text classifier"):
        measure("disco-terms", from_sklearn(fitted()))


def test_classes_that_are_numbers(fitted):
    model = from_sklearn(fitted([job == "nurse" for job in JOBS]))
    assert model.role.labels == ("False", "True")
    assert from_sklearn(fitted([JOBS.index(job) for job in JOBS])).role.labels == ("0", "1")


def test_the_fingerprint_follows_the_fitted_parameters(fitted):
    one = from_sklearn(fitted()).fingerprint
    assert isinstance(one, str)
    assert from_sklearn(fitted()).fingerprint == one
    assert from_sklearn(fitted(lowercase=False)).fingerprint != one
    assert from_sklearn(fitted(JOBS[::-1])).fingerprint != one
    assert from_sklearn(fitted(), fingerprint=None).fingerprint is None
    assert from_sklearn(fitted(), fingerprint="release-7").fingerprint == "release-7"


def test_the_fingerprint_is_the_same_after_scoring_and_in_another_process(fitted, tmp_path):
    import pickle

    pipeline = fitted()
    before = from_sklearn(pipeline).fingerprint
    pipeline.predict_proba(TEXTS)
    assert from_sklearn(pipeline).fingerprint == before
    (tmp_path / "pipeline.pickle").write_bytes(pickle.dumps(pipeline))
    script = (
        "import pickle, sys\nfrom pytest_genderbias import from_sklearn\n"
        "print(from_sklearn(pickle.load(open(sys.argv[1], 'rb'))).fingerprint)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "pipeline.pickle")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == before


def split_at_spaces(text):
    """A tokenizer whose code a pickle does not hold."""
    return text.split()


@pytest.mark.parametrize("tokenizer", [split_at_spaces, lambda text: text.split()], ids=["function", "lambda"])
def test_no_fingerprint_where_code_of_the_user_decides(fitted, tokenizer):
    model = from_sklearn(fitted(tokenizer=tokenizer, token_pattern=None))
    assert model.fingerprint is None


def test_estimators_without_probabilities_or_not_fitted(fitted):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    svm = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(TEXTS, JOBS)
    with pytest.raises(ModelError, match="Pipeline has no predict_proba and classes_; expected a fitted"):
        from_sklearn(svm)
    with pytest.raises(ModelError, match="expected a fitted"):
        from_sklearn(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    with pytest.raises(ModelError, match="str has no predict_proba"):
        from_sklearn("demo-mlm")
    for call in (load_model, lambda target: measure("bios", target)):
        with pytest.raises(ModelError, match=r"Pipeline is a scikit-learn estimator; write from_sklearn\(estimator\)"):
            call(fitted())


def test_a_pipeline_by_module_and_callable(fitted, tmp_path, monkeypatch):
    import joblib

    joblib.dump(fitted(), tmp_path / "pipeline.joblib")
    (tmp_path / "own_pipeline_for_test.py").write_text(
        "import joblib\nfrom pytest_genderbias import from_sklearn\n"
        f"def make():\n    return from_sklearn(joblib.load({str(tmp_path / 'pipeline.joblib')!r}))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    model = load_model("mine=own_pipeline_for_test:make")
    assert (model.name, model.role.kind) == ("mine", "text-classifier")
    assert model.fingerprint == from_sklearn(fitted()).fingerprint


# spaCy


@pytest.fixture
def categorizer():
    spacy = pytest.importorskip("spacy", reason="needs spaCy")
    from spacy.training import Example

    def train(component="textcat"):
        spacy.util.fix_random_seed(3)
        nlp = spacy.blank("en")
        nlp.add_pipe(component)
        cats = [{label: float(label == job) for label in ("nurse", "judge")} for job in JOBS]
        examples = [Example.from_dict(nlp.make_doc(text), {"cats": cat}) for text, cat in zip(TEXTS, cats, strict=True)]
        optimizer = nlp.initialize(lambda: examples)
        for _ in range(10):
            nlp.update(examples, sgd=optimizer)
        return nlp

    return train


def test_a_text_categorizer_is_a_text_classifier(categorizer, biographies):
    nlp = categorizer()
    model = from_spacy(nlp, name="textcat")
    assert (model.name, model.role.kind, model.fingerprint) == ("textcat", "text-classifier", None)
    assert set(model.role.labels) == {"nurse", "judge"}
    scores = model.backend.class_probabilities(TEXTS[:4])
    expected = [[nlp(text).cats[label] for label in model.role.labels] for text in TEXTS[:4]]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    m = measure("bios", model, texts=str(biographies), cache=None)
    assert m.values["accuracy"] > 0.5
    assert m.value is not None
    assert from_spacy(nlp, fingerprint="v1").fingerprint == "v1"


def test_a_pipeline_without_a_categorizer_of_exclusive_categories(categorizer, biographies):
    spacy = pytest.importorskip("spacy", reason="needs spaCy")
    with pytest.raises(ModelError, match="has no component 'textcat'; it has none"):
        from_spacy(spacy.blank("en"))
    nlp = spacy.blank("en")
    nlp.add_pipe("textcat")
    with pytest.raises(ModelError, match="has the classes none; expected two or more"):
        from_spacy(nlp)
    several = from_spacy(categorizer("textcat_multilabel"), component="textcat_multilabel")
    with pytest.raises(ScoreError, match=r"class_probabilities of spacy gives probabilities that do not sum to one"):
        measure("bios", several, texts=str(biographies), cache=None)
    with pytest.raises(ModelError, match=r"English is a spaCy pipeline; write from_spacy\(nlp\)"):
        load_model(nlp)
