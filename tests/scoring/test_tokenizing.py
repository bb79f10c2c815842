"""Threads that share a tokenizer: texts are cut where they should be, and nowhere else."""

from concurrent.futures import ThreadPoolExecutor

from pytest_genderbias import load_model
from pytest_genderbias.scoring.tokens import CuttingTokenizer, RowEncoder


def test_a_thread_that_cuts_texts_cuts_none_of_another_thread():
    """Both call the tokenizer of one model, which keeps the limit of its last call."""
    words = load_model("demo-mlm").backend.tokenizer
    texts = ["The nurse met the judge at the door of the old house." for _ in range(20)]
    whole = len(words(texts[0], truncation=False)["input_ids"])

    def cut(_):
        return {len(ids) for ids in CuttingTokenizer(words, 5)(texts)["input_ids"]}

    def uncut(_):
        return {len(encoding.ids) for encoding in RowEncoder(words).encode([(text,) for text in texts])}

    with ThreadPoolExecutor(4) as threads:
        lengths = list(threads.map(lambda number: (cut if number % 2 else uncut)(number), range(400)))
    assert whole > 5 and lengths == [{whole}, {5}] * 200
