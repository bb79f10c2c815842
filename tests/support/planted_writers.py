"""A causal LM that writes words at known rates, which hang on the gendered words of its prompt; and one that writes
down what it reads.
"""

from types import SimpleNamespace

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from pytest_genderbias import load_suite
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import CAUSAL_LM, Role

END = "</s>"
#: What a planted writer writes: its end, then two words for each kind, none of which stands in a prompt.
KINDS = {
    "plain": ("stone", "paper"),
    "positive": ("wonderful", "splendid"),
    "negative": ("terrible", "horrible"),
    "career": ("salary", "corporation"),
    "family": ("cousins", "wedding"),
    "female": ("ladies", "grandmothers"),
    "male": ("gentlemen", "grandfathers"),
    "refusal": ("as an ai", "as a language model"),
}
WRITTEN = (END, *(kinds[0] for kinds in KINDS.values()), *(kinds[1] for kinds in reversed(KINDS.values())))


class Writer(torch.nn.Module):
    """Writes each word by itself, at rates that hang on whether the text before holds a word of the first group.

    ``rates``: for each side, the probabilities of ``END`` and of the kinds; what is left goes to plain words. Those of
    refusals hold for the first word of a text only. The second side has the other words of each kind, in the other
    order, so that the same random numbers give other kinds.
    """

    def __init__(self, rates, first_ids):
        super().__init__()
        self.first = torch.as_tensor(sorted(first_ids))
        self.tables = torch.stack(
            [self._table(side, place) for place, side in enumerate(rates)]
        )  # side, first word?, token
        self.size = 0

    @staticmethod
    def _table(side, place):
        rows = []
        for begins in (False, True):
            row = torch.zeros(len(WRITTEN), dtype=torch.float64)
            shown = {kind: rate for kind, rate in side.items() if begins or kind != "refusal"}
            for kind, rate in {**shown, "plain": 1 - sum(shown.values())}.items():
                row[0 if kind == END else WRITTEN.index(KINDS[kind][place])] += rate
            rows.append(row)
        return torch.stack(rows)

    def forward(self, input_ids):
        side = 1 - torch.isin(input_ids, self.first).any(1).long()
        begins = (input_ids[:, -1] >= len(WRITTEN)).long()
        logits = torch.full((len(input_ids), 1, self.size), -torch.inf, dtype=torch.float64)
        logits[:, 0, : len(WRITTEN)] = self.tables[side, begins].log()
        return SimpleNamespace(logits=logits)


class Recorder(torch.nn.Module):
    """Ends each text at once, and keeps the token ids that it read."""

    def __init__(self):
        super().__init__()
        self.read, self.size = [], 0

    def forward(self, input_ids):
        self.read += input_ids.tolist()
        logits = torch.zeros(len(input_ids), 1, self.size)
        logits[..., 0] = 100.0
        return SimpleNamespace(logits=logits)


def written_by(network, prompts, chat_template=None):
    """Return a model of a network whose tokenizer knows the words of the prompts."""
    splitter = pre_tokenizers.Whitespace()
    words = dict.fromkeys(word for text in prompts for word, _ in splitter.pre_tokenize_str(text))
    vocabulary = {word: number for number, word in enumerate((*WRITTEN, *words, "[UNK]"))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = splitter
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, unk_token="[UNK]")
    fast.chat_template = chat_template
    network.size = len(vocabulary)
    backend = Checkpoint(network, fast, "cpu", None)
    return Model("writer", "writer", Role(CAUSAL_LM, "a causal LM"), "writer", chat_template_details(fast), backend)


def biased_writer(first, second=None, suite="counterfactual-generation"):
    """Return a model that writes at the rates ``first`` after prompts about the first group, ``second`` after the
    others (the same by default).
    """
    body = load_suite(suite).body
    group = {e.word for e in body.gendered.entries if e.attributes["group"] == body.groups[0]}
    more = {"businesswoman", "headmistress", "actress", "policewoman", "chairwoman"}
    network = Writer((first, first if second is None else second), ())
    model = written_by(network, [text for prompt in body.prompts for text in prompt.texts])
    vocabulary = model.backend.tokenizer.get_vocab()
    of_group = [
        number for word, number in vocabulary.items() if number >= len(WRITTEN) and word.lower() in group | more
    ]
    network.first = torch.as_tensor(sorted(of_group))
    return model
