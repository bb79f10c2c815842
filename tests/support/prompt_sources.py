"""A causal LM of this process that is asked for prompts as a server is, for tests of whatever asks."""

import numpy as np
import torch

from pytest_genderbias.scoring.token_sums import PromptAnswer


class LocalSource:
    """Answers with the log-probabilities of a network, each prompt passed alone. ``asked`` and ``drawn`` hold all
    prompts so far.
    """

    where, max_length = "the network of a test", None

    def __init__(self, model):
        self.network, self.tokenizer = model.backend.network, model.backend.tokenizer
        self.facts = {"server": "test 1"}
        self.asked, self.drawn = [], []
        self._rng = np.random.default_rng(7)

    def ask(self, prompts, most_likely=0, temperature=0.0):
        self.asked += [list(prompt) for prompt in prompts]
        answers = []
        for prompt in prompts:
            table = self._table([prompt])[0]
            values = np.array([np.nan, *(table[i, token] for i, token in enumerate(prompt[1:]))])
            best = np.argsort(-table[:-1], axis=1, kind="stable")[:, :most_likely]
            top = [{}, *({int(i): float(row[i]) for i in ids} for row, ids in zip(table, best, strict=False))]
            answers.append(PromptAnswer(values, list(map(int, prompt)), top, len(prompt)))
        return answers

    def generate(self, prompts, tokens, temperature, seed):
        self.drawn += [list(prompt) for prompt in prompts]
        rows = [list(map(int, prompt)) for prompt in prompts]
        for _ in range(tokens):
            longest = max(map(len, rows))
            tables = self._table([row + [0] * (longest - len(row)) for row in rows])
            for row, table in zip(rows, tables, strict=True):
                chances = np.exp(table[len(row) - 1])
                row.append(
                    self._rng.choice(len(chances), p=chances / chances.sum()) if temperature else chances.argmax()
                )
        return [list(map(int, row[len(prompt) :])) for row, prompt in zip(rows, prompts, strict=True)]

    def own_token_ids(self, text):
        return self.tokenizer(text)["input_ids"]

    def _table(self, prompts):
        with torch.inference_mode():
            logits = self.network(torch.tensor(prompts)).logits
        return logits.double().log_softmax(-1).numpy()
