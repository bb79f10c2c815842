"""Tiny random checkpoints with tokenizers of the usual kinds, trained on sentences of the packaged suites.

The trained vocabularies are in ``vocabularies/``, since trainers break ties at random and every process would have
other ones. ``python -m tests.support.tiny_checkpoints`` trains them anew.
"""

import json
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from pytest_genderbias import load_suite
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.space import Axis

BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
VOCABULARY = 700
VOCABULARIES = Path(__file__).with_name("vocabularies")
NLI = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}


@lru_cache(maxsize=None, typed=True)  # True is no 1
def suite_space(name, **options):
    """Return a packaged suite's space and query; they must not be changed."""
    suite = load_suite(name)
    chosen = resolve_options(suite.family.options, {**suite.defaults, **options}, name)
    context = Context("causal-lm" if "verbaliser" in options else "any")
    question = suite.family.questions(suite.body, chosen, context)["cases"]
    return question.cases, question.query


@cache
def small_disco():
    """Return the space of disco-names with every 16th name, and its query; they must not be changed."""
    space, query = suite_space("disco-names")
    words = space.words["person"][::16]
    axes = (Axis.whole("person", len(words)), space.axes[1])
    return replace(space, words={"person": words}, axes=axes), query


@cache
def small_nli():
    """Return the space of nli-occupation with 16 words of each kind, and its query; they must not be changed."""
    space, query = suite_space("nli-occupation")
    words = {slot: of_slot[:16] for slot, of_slot in space.words.items()}
    axes = tuple(replace(axis, choices=axis.choices[(axis.choices < 16).all(axis=1)]) for axis in space.axes)
    return replace(space, words=words, axes=axes), query


def small_suite_space(name):
    """Return what :func:`suite_space` does, of disco-names with fewer names: to lay out a thousand takes longer than to
    score some cases.
    """
    return small_disco() if name == "disco-names" else suite_space(name)


@cache
def corpus():
    """Return some thousand sentences of the suites, with a word in place of the mask."""
    rng = np.random.default_rng(0)
    sentences = []
    for name in ("disco-names", "disco-terms", "nli-occupation", "nli-demonym", "lm-occupation"):
        space, _ = suite_space(name)
        cases = rng.integers(space.n_cases, size=600)
        sentences += [text for case in space.sentences(cases, "music") for text in case]
    return sentences


def _word_piece():
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer = normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return trained, trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=BERT_SPECIALS)


def _byte_bpe(specials):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trained, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=specials, initial_alphabet=alphabet)


def _unigram(specials, unk, lower=False):
    trained = Tokenizer(models.Unigram())
    trained.normalizer = normalizers.Lowercase() if lower else None
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    return trained, trainers.UnigramTrainer(vocab_size=VOCABULARY, special_tokens=specials, unk_token=unk)


def _llama_bpe():
    """Return what learns merges inside words, as SentencePiece does, with byte tokens for what has no piece."""
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    return trained, trainers.BpeTrainer(vocab_size=VOCABULARY + 256, special_tokens=specials)


#: Each returns an untrained tokenizer and its trainer.
_UNTRAINED = {
    "word-piece": _word_piece,
    "byte-bpe": lambda: _byte_bpe(BERT_SPECIALS),
    "byte-bpe-roberta": lambda: _byte_bpe(ROBERTA_SPECIALS),
    "byte-bpe-gpt2": lambda: _byte_bpe(["<|endoftext|>"]),
    "unigram-xlm-roberta": lambda: _unigram(ROBERTA_SPECIALS, "<unk>"),
    "unigram-albert": lambda: _unigram(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], "<unk>", lower=True),
    "unigram-deberta": lambda: _unigram(BERT_SPECIALS, "[UNK]"),
    "llama": _llama_bpe,
}


def _trained(name):
    return Tokenizer.from_file(str(VOCABULARIES / f"{name}.json"))


def _merges(name):
    model = json.loads(_trained(name).to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def _pieces(name):
    return [(token, score) for token, score in json.loads(_trained(name).to_str())["model"]["vocab"]]


def _modernbert():
    trained = _trained("byte-bpe")
    trained.decoder = decoders.ByteLevel()
    ids = {token: trained.token_to_id(token) for token in BERT_SPECIALS}
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token=AddedToken("[MASK]", lstrip=True, special=True),
    )


@cache
def tokenizer(kind):
    """Return a tokenizer of a family, with the class that the family has in transformers."""
    if kind in ("bert", "distilbert", "electra"):
        return transformers.BertTokenizer(vocab=_trained("word-piece").get_vocab())
    if kind == "mpnet":
        words = [token for token in _trained("word-piece").get_vocab() if token not in BERT_SPECIALS]
        order = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *sorted(words), "<mask>"]
        mask = AddedToken("<mask>", lstrip=True, special=True)
        return transformers.MPNetTokenizer(vocab={token: i for i, token in enumerate(order)}, mask_token=mask)
    if kind == "roberta":
        vocab, merges = _merges("byte-bpe-roberta")
        mask = AddedToken("<mask>", lstrip=True, special=True)
        return transformers.RobertaTokenizer(vocab=vocab, merges=merges, mask_token=mask)
    if kind == "gpt2":
        vocab, merges = _merges("byte-bpe-gpt2")
        return transformers.GPT2Tokenizer(vocab=vocab, merges=merges)
    if kind == "xlm-roberta":
        mask = AddedToken("<mask>", lstrip=True, special=True)
        return transformers.XLMRobertaTokenizer(vocab=_pieces("unigram-xlm-roberta"), mask_token=mask)
    if kind == "albert":
        mask = AddedToken("[MASK]", lstrip=True, special=True)
        return transformers.AlbertTokenizer(vocab=_pieces("unigram-albert"), mask_token=mask)
    if kind == "deberta-v2":
        return transformers.DebertaV2Tokenizer(vocab=_pieces("unigram-deberta"))
    if kind == "llama":
        vocab, merges = _merges("llama")
        return transformers.LlamaTokenizer(vocab=vocab, merges=merges, add_bos_token=True)
    if kind == "modernbert":
        return _modernbert()
    raise ValueError(kind)


_SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
}


def _configs():
    small, t = _SMALL, transformers
    return {
        "bert": (t.BertForMaskedLM, t.BertConfig, small),
        "bert-nli": (t.BertForSequenceClassification, t.BertConfig, small | NLI),
        "roberta": (t.RobertaForMaskedLM, t.RobertaConfig, small | {"type_vocab_size": 1}),
        "roberta-nli": (t.RobertaForSequenceClassification, t.RobertaConfig, small | NLI | {"type_vocab_size": 1}),
        "xlm-roberta": (t.XLMRobertaForMaskedLM, t.XLMRobertaConfig, small | {"type_vocab_size": 1}),
        "albert": (t.AlbertForMaskedLM, t.AlbertConfig, small | {"embedding_size": 8}),
        "distilbert": (
            t.DistilBertForMaskedLM,
            t.DistilBertConfig,
            {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "initializer_range": 0.4},
        ),
        "electra": (t.ElectraForMaskedLM, t.ElectraConfig, small | {"embedding_size": 8}),
        "deberta-v2": (
            t.DebertaV2ForMaskedLM,
            t.DebertaV2Config,
            small | {"relative_attention": True, "position_buckets": 16, "pos_att_type": ["p2c", "c2p"],
                "norm_rel_ebd": "layer_norm",
                     "share_att_key": True, "type_vocab_size": 0},
        ),
        "mpnet": (t.MPNetForMaskedLM, t.MPNetConfig, small),
        "modernbert": (
            t.ModernBertForMaskedLM,
            t.ModernBertConfig,
            {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32,
                "local_attention": 8,
             "max_position_embeddings": 64, "initializer_range": 0.4},
        ),
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config, {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64,
                "initializer_range": 0.4}),
        "llama": (t.LlamaForCausalLM, t.LlamaConfig, small | {"num_key_value_heads": 1}),
    }  # fmt: skip


MASKED = ("bert", "roberta", "xlm-roberta", "albert", "distilbert", "electra", "deberta-v2", "mpnet", "modernbert")
CAUSAL = ("gpt2", "llama")
CLASSIFIERS = ("bert-nli", "roberta-nli")


def make_network(kind, seed=0, **changes):
    """Return a random network of a kind, in evaluation mode."""
    words = tokenizer(kind.removesuffix("-nli"))
    network_class, config_class, settings = _configs()[kind]
    specials = {
        "pad_token_id": words.pad_token_id,
        "bos_token_id": words.bos_token_id,
        "eos_token_id": words.eos_token_id,
        "cls_token_id": words.cls_token_id,
        "sep_token_id": words.sep_token_id,
    }
    config = config_class(**settings | specials | {"vocab_size": len(words)} | changes)
    torch.manual_seed(seed)
    return network_class(config).eval()


def save_checkpoint(kind, folder, seed=0, **changes):
    """Write network and tokenizer of a kind to a folder, and return it."""
    make_network(kind, seed, **changes).save_pretrained(folder)
    tokenizer(kind.removesuffix("-nli")).save_pretrained(folder)
    return Path(folder)


if __name__ == "__main__":
    for name, untrained in _UNTRAINED.items():
        trained, trainer = untrained()
        trained.train_from_iterator(corpus(), trainer)
        trained.save(str(VOCABULARIES / f"{name}.json"), pretty=False)
