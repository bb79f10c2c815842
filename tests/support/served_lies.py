"""What a server of completions can get wrong, each a name, a sentence and a change of what ``support.served`` reads.

``LIES`` can be found by asking the server. ``CONSISTENT`` cannot: what it says is, in every answer, what some other
causal LM would say, so that nothing but the model's own weights shows it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from pytest_genderbias.engines.served_proof import KNOWN_TEXTS


@dataclass(frozen=True)
class Lie:
    """A sentence, and what changes: prompts before they are read, readings, or the choices of an answer.

    ``also_written``: tokens are drawn from what is given out, and not from what the network says.
    """

    sentence: str
    prompts: Callable = lambda server, prompts: prompts
    readings: Callable = lambda server, prompts, readings: readings
    choices: Callable = lambda server, choices: choices
    also_written: bool = False


def _each(change):
    """Return a change of all readings of a request, from one of a reading."""

    def changed(server, prompts, readings):
        for reading in readings:
            change(server, reading)
        return readings

    return changed


def _values(change):
    """Return a change of the values alone, from the values to others; the list of likeliest tokens stays true."""

    def changed(server, reading):
        reading.values = np.asarray(change(reading.values), dtype=np.float64)

    return _each(changed)


def _table(change):
    """Return a change of all that is given out, from a table to another. Tokens are still drawn from the true one."""
    return _each(lambda server, reading: reading.relist(change(reading.table)))


def _normalised(table):
    table = np.where(np.isneginf(table), -1e30, table)
    with np.errstate(invalid="ignore"):  # the first token has no values
        table -= table.max(axis=-1, keepdims=True)
        return table - np.log(np.exp(table).sum(axis=-1, keepdims=True))


# --- values that are no values
# -------------------------------------------------------------------------------------------------------


def _without_echo(server, choices):
    for choice in choices:
        if choice["logprobs"]:
            kept = len(choice["_new"])
            choice["logprobs"] = {name: entries[len(entries) - kept :] for name, entries in choice["logprobs"].items()}
    return choices


def _without_values(server, choices):
    for choice in choices:
        if choice["logprobs"]:
            given = len(choice["logprobs"]["tokens"]) - len(choice["_new"])
            for name in ("token_logprobs", "top_logprobs"):
                choice["logprobs"][name][:given] = [None] * given
    return choices


def _chance(table):
    return np.full_like(table, -np.log(table.shape[-1])) + 0 * table


def _only_the_last(values):
    out = np.full_like(values, np.nanmean(values)) if len(values) > 1 else values
    out[0], out[-1] = np.nan, values[-1]
    return out


def _spread(values):
    out = np.full_like(values, np.nansum(values) / max(1, len(values) - 1))
    out[0] = np.nan
    return out


# --- values of something else
# -------------------------------------------------------------------------------------------------------


def _of_the_next(values):
    return np.concatenate([values[:1], values[2:], values[-1:]]) if len(values) > 2 else values


def _of_the_one_before(values):
    return np.concatenate([values[:1], values[1:2], values[1:-1]])[: len(values)]


def _of_the_likeliest(server, reading):
    reading.values = np.concatenate([reading.values[:1], reading.table[1 : len(reading.ids)].max(axis=1)])


def _other_network(server):
    if "network" not in server.memory:
        network = copy.deepcopy(server.network)
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(0.15 * weight.std() * torch.randn_like(weight))
        server.memory["network"] = network.eval()
    return server.memory["network"]


def _four_bits(server):
    if "network" not in server.memory:
        network = copy.deepcopy(server.network)
        with torch.no_grad():
            for weight in network.parameters():
                if weight.ndim == 2:
                    step = weight.abs().amax(dim=1, keepdim=True) / 7
                    weight.copy_((weight / step).round() * step)
        server.memory["network"] = network.eval()
    return server.memory["network"]


def _read_by(other):
    def changed(server, prompts, readings):
        tables = server.tables([reading.ids for reading in readings], other(server))
        for reading, table in zip(readings, tables, strict=True):
            reading.relist(table)
        return readings

    return changed


def _read_by_other_ids(server, prompts, readings):
    """Read each prompt with the ids of a vocabulary in another order, as of a tokenizer that was trained anew."""
    size = len(server.tokenizer)
    order = np.arange(size)
    order[3:] = np.random.default_rng(5).permutation(order[3:])
    tables = server.tables([order[reading.ids].tolist() for reading in readings])
    for reading, table in zip(readings, tables, strict=True):
        there = table.copy()
        there[:, :size] = table[:, order]
        reading.relist(there)
    return readings


def _of_the_neighbour(server, prompts, readings):
    if len(readings) < 2:
        return readings
    longest = max(len(reading.ids) for reading in readings)
    values = [np.resize(reading.values[1:], longest) for reading in readings]
    for reading, others in zip(readings, values[1:] + values[:1], strict=True):
        reading.values = np.concatenate([reading.values[:1], others[: len(reading.ids) - 1]])
    return readings


def _remembered(server, prompts, readings):
    """Return the readings of an earlier prompt that begins with the same six tokens, as far as they go."""
    for reading in readings:
        key = ("beginning", *reading.ids[:6])
        table = server.memory.setdefault(key, reading.table)
        both = min(len(table), len(reading.table))
        reading.relist(np.concatenate([table[:both], reading.table[both:]]))
    return readings


def _padding_is_read(server, prompts, readings):
    """Read each prompt of a list with zeros before it up to the length of the longest, which no mask hides."""
    longest = max(map(len, prompts))
    tables = server.tables([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    for reading, table in zip(readings, tables, strict=True):
        own = table[longest - len(reading.ids) :].copy()
        own[0] = np.nan
        reading.relist(own)
    return readings


def _sees_the_next(server, reading):
    """Mix the value of each token with what the whole text says, as where the mask of the attention is left out."""
    table = reading.table.copy()
    ahead = np.concatenate([table[1:], table[-1:]])
    table[1:] = _normalised(0.7 * table[1:] + 0.3 * ahead[1:])
    reading.relist(table)


# --- another prompt
# -----------------------------------------------------------------------------------------------------------------


def _shifted_prompt(number):
    def changed(server, prompts):
        return [list(prompt)[number:] if len(prompt) > number else list(prompt) for prompt in prompts]

    return changed


def _hidden_cut(most):
    """Return a change that reads only the last tokens of a long prompt, and gives those before them the values of the
    rest, over and over.
    """

    def changed(server, prompts, readings):
        for reading in readings:
            if len(reading.ids) > most:
                (table,) = server.tables([reading.ids[-most:]])
                before = len(reading.ids) - most
                filled = np.concatenate(
                    [np.full((1, table.shape[1]), np.nan), np.resize(table[1:], (before, table.shape[1])), table[1:]]
                )
                reading.relist(filled)
        return readings

    return changed


def _short_memory(most):
    """Return a change that reads each token of a prompt after the few before it only."""

    def changed(server, prompts, readings):
        for reading in readings:
            windows = [reading.ids[max(0, end - most) : end] for end in range(1, len(reading.ids) + 1)]
            rows = np.stack([table[-1] for table in server.tables(windows)])
            reading.relist(np.concatenate([reading.table[:1], rows]))
        return readings

    return changed


def _with_begin(server, prompts, readings):
    """Read the prompts with the first token of the vocabulary before them, and keep it out of the answer."""
    begin = server.tokenizer.bos_token_id
    tables = server.tables([[begin, *reading.ids] for reading in readings])
    for reading, table in zip(readings, tables, strict=True):
        reading.relist(table[1:])
    return readings


def _from_text(server, prompts):
    return [
        server.tokenizer(server.tokenizer.decode(prompt, skip_special_tokens=True))["input_ids"] for prompt in prompts
    ]


def _from_text_in_hiding(server, prompts, readings):
    """Read the text of the prompts cut into tokens anew, and give the values out under the ids that came."""
    tables = server.tables(_from_text(server, prompts))
    for reading, table in zip(readings, tables, strict=True):
        reading.relist(np.concatenate([table[:1], np.resize(table[1:], (len(reading.ids), table.shape[1]))]))
    return readings


def _without_spaces(server, prompts):
    blank = {token for token in range(len(server.tokenizer)) if not server.tokenizer.decode([token]).strip()}
    return [[token for token in prompt if token not in blank] or list(prompt) for prompt in prompts]


# --- another scale
# ------------------------------------------------------------------------------------------------------------------


def _only_top(kept):
    def changed(table):
        lowest = np.sort(table, axis=-1)[:, -kept][:, None]
        return np.maximum(_normalised(np.where(table >= lowest, table, -np.inf)), -30.0)

    return _table(changed)


def _by_characters(server, reading):
    lengths = np.array([max(1, len(server.tokenizer.decode([token]))) for token in reading.ids])
    reading.values = reading.values / lengths


def _jittered(server, reading):
    noise = np.random.default_rng([len(reading.ids), *reading.ids]).normal(0, 0.4, reading.table.shape)
    reading.relist(_normalised(reading.table + noise))


def _penalised(server, reading):
    """Take a penalty off every token that came before, as a sampler does against repetitions."""
    table = reading.table.copy()
    for place in range(1, len(table)):
        table[place, list(set(reading.ids[:place]))] -= 2.0
    reading.relist(_normalised(table))


def _raised_top(server, choices):
    for choice in choices:
        for listed in (choice["logprobs"] or {}).get("top_logprobs", []):
            for name in listed or ():
                listed[name] = min(0.0, listed[name] + np.log(3))
    return choices


def _top_of_others(server, reading):
    reading.listed = np.concatenate([reading.listed[:1], reading.listed[2:], reading.listed[-1:]])


def _at_temperature_asked(server, reading):
    temperature = server.asked.temperature
    if temperature not in (0, 1):
        reading.relist(_normalised(reading.table / temperature))


# --- another time
# -------------------------------------------------------------------------------------------------------------------


def _after(requests, change):
    """Return a change that begins after a number of readings."""

    def changed(server, prompts, readings):
        if server.readings_given <= requests:
            return readings
        return change(server, prompts, readings)

    return changed


def _every(number, change):
    """Return a change of every n-th request, as of one of several machines behind an address."""

    def changed(server, prompts, readings):
        server.memory["requests"] = server.memory.get("requests", 0) + 1
        return readings if server.memory["requests"] % number else change(server, prompts, readings)

    return changed


def _from_memory(server, prompts, readings):
    """Give the same prompt the same reading for ever, though the network behind the memory changes in the meantime."""
    other = _read_by(_other_network)
    for place, reading in enumerate(readings):
        key = ("prompt", *reading.ids)
        if key not in server.memory:
            late = server.readings_given > LATE
            server.memory[key] = other(server, None, [reading])[0] if late else reading
        readings[place] = server.memory[key]
    return readings


#: Readings after which a change begins: more than a proof asks for.
LATE = 6000
_OTHER = _read_by(_other_network)

LIES = {
    "nulls": Lie("Gives the tokens of the prompt no values.", choices=_without_values),
    "no-echo": Lie("Ignores echo: only generated tokens have values.", choices=_without_echo),
    "chance": Lie("Gives each token the same probability.", readings=_table(_chance)),
    "zeros": Lie("Gives each token the probability 1.", readings=_values(lambda values: 0 * values)),
    "last-only": Lie(
        "Gives only the last token its own value, and the others their mean.", readings=_values(_only_the_last)
    ),
    "spread": Lie("Spreads the sum of a text evenly over its tokens.", readings=_values(_spread)),
    "infinite": Lie(
        "Writes the largest number in place of an unlikely token's value.",
        readings=_values(lambda values: np.where(values < -9, -3e38, values)),
    ),
    "value-of-next": Lie("Gives each token the value of the one after it.", readings=_values(_of_the_next)),
    "value-of-previous": Lie("Gives each token the value of the one before it.", readings=_values(_of_the_one_before)),
    "value-of-likeliest": Lie(
        "Gives each token the value of the likeliest one in its place.", readings=_each(_of_the_likeliest)
    ),
    "other-model": Lie("Reads prompts with other weights than it writes with.", readings=_OTHER),
    "four-bits": Lie(
        "Reads prompts with weights of four bits, and writes with the whole ones.", readings=_read_by(_four_bits)
    ),
    "other-vocabulary": Lie("Has a vocabulary in another order.", readings=_read_by_other_ids, also_written=True),
    "neighbour": Lie("Gives each prompt of a list the values of the next one.", readings=_of_the_neighbour),
    "same-beginning": Lie(
        "Takes the values of the first prompt that began with the same six tokens.", readings=_remembered
    ),
    "padding": Lie("Reads the padding of a list as text.", readings=_padding_is_read),
    "looks-ahead": Lie("Lets each token see the one after it.", readings=_each(_sees_the_next)),
    "first-dropped": Lie("Leaves out the first token of each prompt.", prompts=_shifted_prompt(1)),
    "cut": Lie(
        "Reads only the last sixteen tokens of a prompt.",
        prompts=lambda server, prompts: [list(p)[-16:] for p in prompts],
    ),
    "hidden-cut": Lie(
        "Reads only the last sixteen tokens, and fills up the values of the others.", readings=_hidden_cut(16)
    ),
    "short-memory": Lie(
        "Reads each token of a prompt after the four before it only, and writes with all of them.",
        readings=_short_memory(4),
    ),
    "window": Lie(
        "Reads and writes each token after the eight before it only.", readings=_short_memory(8), also_written=True
    ),
    "begin-while-reading": Lie(
        "Puts a first token before the prompts that it reads, and not before those that it continues.",
        readings=_with_begin,
    ),
    "cut-anew": Lie("Makes a text of the token ids, and cuts it into tokens anew.", prompts=_from_text),
    "cut-anew-in-hiding": Lie(
        "Cuts the text into tokens anew, and says it kept the ids.", readings=_from_text_in_hiding
    ),
    "stripped": Lie("Leaves out the tokens that are only spaces.", prompts=_without_spaces),
    "base-10": Lie("Takes logarithms of base 10.", readings=_table(lambda table: table / np.log(10))),
    "base-2": Lie("Takes logarithms of base 2.", readings=_table(lambda table: table / np.log(2))),
    "probabilities": Lie("Writes probabilities in place of their logarithms.", readings=_table(np.exp)),
    "surprisal": Lie("Leaves out the minus sign.", readings=_table(np.negative)),
    "clamped": Lie("Has no value below -5.", readings=_table(lambda table: np.maximum(table, -5.0))),
    "tenths": Lie("Rounds to one decimal.", readings=_table(lambda table: np.round(table, 1))),
    "hundredths": Lie("Rounds to two decimals.", readings=_table(lambda table: np.round(table, 2))),
    "logits": Lie(
        "Writes the logits below the largest one, not normalised.",
        readings=_table(lambda table: table - table.max(axis=-1, keepdims=True)),
    ),
    "temperature-0.8": Lie(
        "Reads at a temperature of 0.8, and writes at 1.", readings=_table(lambda table: _normalised(table / 0.8))
    ),
    "temperature-1.5": Lie(
        "Reads at a temperature of 1.5, and writes at 1.", readings=_table(lambda table: _normalised(table / 1.5))
    ),
    "temperature-asked": Lie(
        "Gives values at the temperature that the request sets for what it writes.",
        readings=_each(_at_temperature_asked),
    ),
    "top-5": Lie("Normalises over the five likeliest tokens.", readings=_only_top(5)),
    "top-20": Lie("Normalises over the twenty likeliest tokens.", readings=_only_top(20)),
    "smoothed": Lie(
        "Mixes its probabilities with a tenth and a half of even chance.",
        readings=_table(lambda table: np.log(0.85 * np.exp(table) + 0.15 / table.shape[-1])),
    ),
    "lowered": Lie("Subtracts 0.2 from each value.", readings=_table(lambda table: table - 0.2)),
    "per-length": Lie(
        "Divides each value by the number of tokens.", readings=_values(lambda values: values / max(1, len(values)))
    ),
    "per-character": Lie("Divides each value by the length of the token's text.", readings=_each(_by_characters)),
    "averaged": Lie(
        "Averages each value with the one before it.",
        readings=_values(lambda values: np.concatenate([values[:2], (values[1:-1] + values[2:]) / 2])[: len(values)]),
    ),
    "jitter": Lie("Moves each prompt's logits at random, the same prompt always alike.", readings=_each(_jittered)),
    "penalty": Lie(
        "Lowers the tokens of a prompt that came before by two nats, and does not while it writes.",
        readings=_each(_penalised),
    ),
    "raised-list": Lie("Lists the likeliest tokens with three times their probability.", choices=_raised_top),
    "list-of-next": Lie("Lists the likeliest tokens of the next place.", readings=_each(_top_of_others)),
    "two-machines": Lie("Has other weights on every second machine behind its address.", readings=_every(2, _OTHER)),
    "swapped": Lie("Gets other weights after some thousand prompts.", readings=_after(LATE, _OTHER)),
    "swapped-behind-memory": Lie(
        "Gets other weights, and answers prompts that it had before from memory.", readings=_from_memory
    ),
}


# --- for some prompts only
# -----------------------------------------------------------------------------------------------------------


def _where(which, change):
    """Return a change of the readings for which ``which(server, prompts, place)`` is true."""

    def changed(server, prompts, readings):
        lying = [reading for place, reading in enumerate(readings) if which(server, prompts, place)]
        if lying:
            change(server, [reading.ids for reading in lying], lying)
        return readings

    return changed


def _shorter(length):
    return lambda server, prompts, place: len(prompts[place]) < length


def _zeros_in_lists(server, reading):
    """Give each token of a prompt the value 0, and list it alone as certain."""
    table = np.full_like(reading.table, -40.0)
    table[np.arange(len(reading.ids)), reading.ids] = 0.0
    reading.relist(table)


def _padded_to(length):
    """Return a change that reads each prompt with zeros before it up to a length, which no mask hides."""

    def changed(server, prompts, readings):
        short = [reading for reading in readings if len(reading.ids) < length]
        tables = server.tables([[0] * (length - len(reading.ids)) + list(reading.ids) for reading in short])
        for reading, table in zip(short, tables, strict=True):
            own = table[length - len(reading.ids) :].copy()
            own[0] = np.nan
            reading.relist(own)
        return readings

    return changed


def _unlike_known_texts(server, prompts, place):
    """Return whether a prompt does not begin as one of the proof does, with its first token or without."""
    if "beginnings" not in server.memory:
        server.memory["beginnings"] = {
            tuple(server.tokenizer(text, add_special_tokens=added)["input_ids"][:4])
            for text in KNOWN_TEXTS
            for added in (True, False)
        }
    beginnings = server.memory["beginnings"]
    return not any(tuple(prompts[place][:4]) == beginning[: len(prompts[place])] for beginning in beginnings)


def _asked_before(server, prompts, place):
    key = ("asked", *prompts[place])
    before = server.memory.get(key, False)
    server.memory[key] = True
    return before and len(prompts) > 0 and _unlike_known_texts(server, prompts, place)


def _in_time(server, prompts, place):
    """Return whether a reading is among those in which the server lies: ``memory["lies"]``, a range; a test sets it
    after the proof.
    """
    server.memory["asked"] = server.memory.get("asked", 0) + 1
    return server.memory["asked"] in server.memory.get("lies", ())


#: What a server may say of rows of a suite, though it is honest about most texts.
OF_ROWS = {
    "short-zeros": Lie(
        "Gives each token of a prompt of less than 20 tokens the probability 1.",
        readings=_where(_shorter(20), _values(lambda values: 0 * values)),
    ),
    "short-certain": Lie(
        "Gives each token of a prompt of less than 20 tokens the probability 1, and lists it alone.",
        readings=_where(_shorter(20), _each(_zeros_in_lists)),
    ),
    "short-other-model": Lie(
        "Reads and writes prompts of less than 20 tokens with other weights.",
        readings=_where(_shorter(20), _OTHER),
        also_written=True,
    ),
    "padded-to-16": Lie("Reads padding up to 16 tokens as text.", readings=_padded_to(16)),
    "some-lengths": Lie(
        "Reads prompts of 5, 7 or 10 tokens with other weights.",
        readings=_where(lambda server, prompts, place: len(prompts[place]) in (5, 7, 10), _OTHER),
    ),
    "lowered-by-length": Lie(
        "Lowers values of prompts of less than 20 tokens that are no known texts by 0.05.",
        readings=_where(
            lambda *asked: _shorter(20)(*asked) and _unlike_known_texts(*asked), _table(lambda table: table - 0.05)
        ),
    ),
    "large-batches": Lie(
        "Reads requests of 14 to 32 prompts with other weights.",
        readings=_where(
            lambda server, prompts, place: len(prompts) > 13 and _unlike_known_texts(server, prompts, place), _OTHER
        ),
    ),
    "not-known": Lie(
        "Reads all prompts with other weights but those that begin as known texts.",
        readings=_where(_unlike_known_texts, _OTHER),
    ),
    "not-known-cut": Lie(
        "Has no value below -5 for prompts that do not begin as known texts.",
        readings=_where(_unlike_known_texts, _table(lambda table: np.maximum(table, -5.0))),
    ),
    "repeated": Lie("Reads a prompt that was asked before with other weights.", readings=_where(_asked_before, _OTHER)),
    "for-a-while": Lie("Reads some prompts in the middle with other weights.", readings=_where(_in_time, _OTHER)),
}


def _with_usual_begin(server, prompts, readings):
    read = _with_begin(server, prompts, readings)
    for reading in read:
        reading.values[0] = np.nan
    return read


CONSISTENT = {
    "another-model": Lie("Serves other weights than it says.", readings=_OTHER, also_written=True),
    "sharper": Lie(
        "Reads and writes at a temperature of 0.9.",
        readings=_table(lambda table: _normalised(table / 0.9)),
        also_written=True,
    ),
    "begin": Lie(
        "Puts a first token before every prompt, and gives no value to the prompt's first.",
        readings=_with_usual_begin,
        also_written=True,
    ),
    "tenth-of-a-percent": Lie(
        "Lowers each value by a thousandth, which 400 draws cannot show.", readings=_table(lambda table: table - 1e-3)
    ),
}
