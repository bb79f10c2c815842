"""A server of completions over a local causal LM, which speaks the parts of OpenAI's format that give log-probabilities
of a prompt.

It listens on the loopback interface, at a port of its own. ``lie`` names what it gets wrong (``support.served_lies``),
``trouble`` what it does that an honest server may do.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import torch
from support.served_lies import CONSISTENT, LIES, OF_ROWS

#: What an honest server may do, each with the reason why a client sees it.
TROUBLES = {
    "out-of-order": "Returns the answers to a list of prompts in another order, each with its index.",
    "busy": "Answers every third body with 429 and Retry-After when it first sees it.",
    "unavailable": "Answers every third body with 503 when it first sees it.",
    "truncated": "Cuts the JSON of its second answer in the middle, once.",
    "dropped": "Closes the connection of its second request without an answer, once.",
    "slow": "Lets its second request wait longer than any time limit of a test, once.",
    "at-least-one-token": "Refuses max_tokens=0 with 400.",
    "no-version": "Has no /version.",
    "no-tokenize": "Has no /tokenize, which is vLLM's and not OpenAI's.",
    "bare-top-list": "Leaves the token itself out of the top list where it is not among the likeliest, as OpenAI does.",
    "own-sampling-defaults": (
        "Samples from the three likeliest tokens unless the request sets top_k, as vLLM does with"
        " generation_config.json."
    ),
    "rounding-noise": (
        "Moves each value by about a millionth of itself at every call, as kernels do whose sums run in any order."
    ),
    "finite-floor": "Writes -9999 for a log-probability that is not finite, as vLLM does.",
    "text-only": "Ignores return_tokens_as_token_ids: its tokens are texts.",
    "extra-choices-fields": "Adds fields that the format does not know.",
}
_WAIT = 2.0  #: seconds of "slow"
_RUNNING = {}  #: the servers of this process, by their ports


@dataclass
class Reading:
    """What a server knows of one prompt.

    ``table``: log-probabilities of all tokens at each place and after the end, float64 of shape (len(ids) + 1,
    vocabulary); row 0 is nan, since nothing comes before it. ``values``: those of the prompt's own tokens, shape
    (len(ids),). ``listed``: the table that the list of likeliest tokens is taken from.
    """

    ids: list[int]
    table: np.ndarray
    values: np.ndarray = field(init=False)
    listed: np.ndarray = field(init=False)

    def __post_init__(self):
        self.listed = self.table
        self.values = self.of(self.table) if self.table.shape[1] > 1 else self.table[:-1, 0]

    def of(self, table):
        """Return the values of the prompt's tokens in a table."""
        return table[np.arange(len(self.ids)), self.ids]

    def relist(self, table):
        """Give out another table, for the prompt's own tokens and for the likeliest."""
        self.listed, self.values = table, self.of(table)


class CompletionServer:
    """A context that serves a causal LM.

    Args:
        network: a causal LM of transformers.
        tokenizer: its tokenizer.
        lie: a name in ``served_lies``; empty for an honest server.
        trouble: names in ``TROUBLES``.
        model: the name under which the model is served.
        version: what /version returns.
        memo: where tables and written tokens of this network are kept for other servers; ``None``: all is computed
            anew.
        key: what has to come as the bearer's token; ``None``: nobody is asked for one.
    """

    def __init__(self, network, tokenizer, lie="", trouble=(), model="local", version="1.0", key=None, memo=None):
        self.network, self.tokenizer, self.lie, self.troubles = (
            network.eval(),
            tokenizer,
            (LIES | CONSISTENT | OF_ROWS)[lie] if lie else None,
            set(trouble),
        )
        assert self.troubles <= set(TROUBLES), self.troubles
        self.model, self.version, self.key, self.memo = model, version, key, memo
        self.bodies, self.headers, self.paths = [], [], []
        self.readings_given = 0
        self.memory = {}  #: what a lie remembers of earlier requests
        self._after = {}  #: rows that follow texts
        self.asked = threading.local()  #: settings of the request that a thread answers
        self._lock, self._drawn, self._seen = threading.Lock(), Counter(), Counter()

    def __enter__(self):
        handler = type("Handler", (_Handler,), {"served": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        _RUNNING[self._server.server_port] = self
        return self

    def __exit__(self, *error):
        del _RUNNING[self._server.server_port]
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def trouble_with(self, path, body):
        """Return the trouble that a request meets, or an empty text. A body that is sent again is answered."""
        if path != "/v1/completions":
            return ""
        with self._lock:
            self._seen[body] += 1
            number = len(self._seen)
        if self._seen[body] > 1:
            return ""
        for name in self.troubles & {"busy", "unavailable"}:
            if number % 3 == 1:
                return name
        for name in self.troubles & {"truncated", "dropped", "slow"}:
            if number == 2:
                return name
        return ""

    def tables(self, prompts, network=None):
        """Return the table of log-probabilities of each prompt, a forward pass for all of them together."""
        if self.memo is None or network is not None:
            return self._tables(prompts, network or self.network)
        new = [list(ids) for ids in {tuple(prompt) for prompt in prompts} - set(self.memo)]
        if new:
            self.memo.update(zip(map(tuple, new), self._tables(new, self.network), strict=True))
        return [self.memo[tuple(prompt)] for prompt in prompts]

    def _tables(self, prompts, network):
        lengths = [len(prompt) for prompt in prompts]
        ids = torch.zeros((len(prompts), max(lengths)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)], mask[row, : len(prompt)] = torch.as_tensor(prompt), 1
        with torch.inference_mode():
            logits = network(input_ids=ids, attention_mask=mask).logits
            table = torch.log_softmax(logits.double(), -1).numpy()
        before = np.full((1, table.shape[-1]), np.nan)
        return [np.concatenate([before, rows[:length]]) for rows, length in zip(table, lengths, strict=True)]

    def read(self, prompts):
        """Return the readings of some prompts, with the lie if there is one."""
        with self._lock:
            read = self.lie.prompts(self, prompts) if self.lie else prompts
            readings = [Reading(ids, table) for ids, table in zip(read, self.tables(read), strict=True)]
            self.readings_given += len(readings)
            return self.lie.readings(self, prompts, readings) if self.lie else readings

    def write(self, prompts, body):
        """Return the tokens after each prompt, with the rows that they were drawn from: a (prompt, sample, tokens,
        rows) for each.
        """
        key = json.dumps([prompts, *(body.get(name) for name in ("max_tokens", "temperature", "seed", "n", "top_k"))])
        with self._lock:
            self._drawn[key] += 1
            asked = (key, self._drawn[key])
        if self.memo is None or (self.lie and self.lie.also_written):
            return self._write(prompts, body, asked)
        if asked not in self.memo:
            self.memo[asked] = self._write(prompts, body, asked)
        return self.memo[asked]

    def _write(self, prompts, body, asked):
        wanted = [(number, sample) for number in range(len(prompts)) for sample in range(body.get("n", 1))]
        texts = [list(prompts[number]) for number, _ in wanted]
        generators = self._generators(asked, [sample for _, sample in wanted], body)
        rows = [[] for _ in wanted]
        lengths = np.array([len(text) for text in texts])
        for length in np.unique(lengths):
            alike = np.flatnonzero(lengths == length)
            past, fed = None, [texts[i] for i in alike]
            for left in reversed(range(body.get("max_tokens", 16))):
                following, past = self._following(fed, past, left)
                for place, i in enumerate(alike):
                    rows[i].append(following[place])
                    texts[i].append(self._draw(following[place], generators[i], body))
                fed = [texts[i] if past is None else texts[i][-1:] for i in alike]
        return [
            (*pair, text[len(text) - len(drawn) :], drawn)
            for pair, text, drawn in zip(wanted, texts, rows, strict=True)
        ]

    def _following(self, texts, past, left):
        """Return the row that follows each text, and what the network keeps for the ``left`` tokens after it; ``None``
        where it is asked for the whole again.

        A text that comes many times, as where many tokens are drawn after it, is read once.
        """
        places, key = np.arange(len(texts)), None
        if past is None:
            number = {text: k for k, text in enumerate(dict.fromkeys(map(tuple, texts)))}
            places, texts = np.array([number[tuple(text)] for text in texts]), [list(text) for text in number]
        if self.lie and self.lie.also_written:
            rows = [reading.listed[-1] for reading in self.read(texts)]
            return [rows[place] for place in places], None
        if past is None and not left:
            key = (self.network, *number)
            if key in self._after:
                return self._after[key][places], None
        with self._lock, torch.inference_mode():
            output = self.network(input_ids=torch.as_tensor(texts), past_key_values=past, use_cache=left > 0)
        if left and past is None:
            output.past_key_values.reorder_cache(torch.as_tensor(places))
        rows = torch.log_softmax(output.logits[:, -1].double(), -1).numpy()
        if key is not None:
            self._after[key] = rows
        return rows[places], output.past_key_values

    def _generators(self, asked, samples, body):
        """Return the generator of each sample: of the seed alone where there is one, as vLLM has it for every prompt of
        a list, else one that is another each time that a request comes.
        """
        if body.get("seed") is not None:
            return [np.random.default_rng(body["seed"] + sample) for sample in samples]
        key, number = asked
        digest = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
        return [np.random.default_rng([digest, number])] * len(samples)

    def _draw(self, row, generator, body):
        temperature = body.get("temperature", 1.0)
        if temperature == 0:
            return int(row.argmax())
        weights = np.exp((row - row.max()) / temperature)
        if "own-sampling-defaults" in self.troubles and "top_k" not in body:
            weights[weights < np.sort(weights)[-3]] = 0
        return int(np.searchsorted(np.cumsum(weights) / weights.sum(), generator.random(), side="right"))

    def described(self, path):
        """Return the status and the content of the answer to a GET."""
        self.paths.append(path)
        if path == "/v1/models":
            longest = self.network.config.max_position_embeddings
            return 200, {"object": "list", "data": [{"id": self.model, "object": "model", "max_model_len": longest}]}
        if path == "/version" and "no-version" not in self.troubles:
            return 200, {"version": self.version}
        return 404, {"error": {"message": "not found", "code": 404}}

    def answered(self, path, headers, raw, trouble=""):
        """Return the status and the content of the answer to a POST, and headers that it needs; ``None`` where the
        connection ends without one.
        """
        self.paths.append(path)
        self.headers.append(dict(headers))
        if self.key is not None and headers.get("Authorization") != f"Bearer {self.key}":
            return 401, {"error": {"message": "no valid key", "code": 401}}
        if path == "/tokenize" and "no-tokenize" not in self.troubles:
            body = json.loads(raw)
            special = body.get("add_special_tokens", True)
            tokens = self.tokenizer(body["prompt"], add_special_tokens=special)["input_ids"]
            return 200, {"count": len(tokens), "tokens": tokens}
        if path != "/v1/completions":
            return 404, {"error": {"message": "not found", "code": 404}}
        if trouble == "busy":
            return 429, {"error": {"message": "too many requests", "code": 429}}, {"Retry-After": "0"}
        if trouble == "unavailable":
            return 503, {"error": {"message": "no worker is ready", "code": 503}}
        if trouble == "dropped":
            return None
        body = json.loads(raw)
        self.bodies.append(body)
        if trouble == "slow":
            time.sleep(_WAIT)
        answer = self.answer(body)
        if isinstance(answer, str):
            return 400, {"error": {"message": answer, "type": "BadRequestError", "code": 400}}
        return 200, answer

    def answer(self, body):
        """Return the answer to a request for completions, or a text that says what is wrong with it."""
        if body.get("model") != self.model:
            return f"the model {body.get('model')!r} does not exist"
        if (body.get("logprobs") or 0) > 5:
            return "logprobs may be 5 at most"
        if body.get("max_tokens", 16) == 0 and "at-least-one-token" in self.troubles:
            return "max_tokens must be at least 1"
        self.asked.temperature = body.get("temperature", 1.0)
        prompts = self._prompts(body["prompt"])
        if any(
            len(prompt) + body.get("max_tokens", 16) > self.network.config.max_position_embeddings for prompt in prompts
        ):
            return "this model's maximum context length is exceeded"
        readings = (
            self.read(prompts)
            if body.get("echo")
            else [Reading(prompt, np.full((len(prompt) + 1, 1), np.nan)) for prompt in prompts]
        )
        written = self.write(prompts, body)
        given = self._log_probabilities([(readings[number], new, rows) for number, _, new, rows in written], body)
        choices = [
            self._choice(number * body.get("n", 1) + sample, readings[number], new, log_probabilities, body)
            for (number, sample, new, _), log_probabilities in zip(written, given, strict=True)
        ]
        if self.lie:
            choices = self.lie.choices(self, choices)
        if "out-of-order" in self.troubles:
            choices = choices[1::2] + choices[::2]
        read = sum(len(reading.ids) for reading in readings)
        made = sum(len(choice.pop("_new")) for choice in choices)
        usage = {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 0,
            "model": self.model,
            "choices": choices,
            "usage": usage,
        }

    def _prompts(self, prompt):
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
            prompt = [prompt]
        return [self.tokenizer(one)["input_ids"] if isinstance(one, str) else list(one) for one in prompt]

    def _choice(self, index, reading, new, log_probabilities, body):
        choice = {
            "index": index,
            "text": self._text((reading.ids if body.get("echo") else []) + new),
            "finish_reason": "length",
            "logprobs": log_probabilities,
            "_new": new,
        }
        if body.get("return_token_ids"):
            choice |= {"prompt_token_ids": reading.ids, "token_ids": new}
        if "extra-choices-fields" in self.troubles:
            choice |= {"stop_reason": None, "kv_transfer_params": {"nothing": []}}
        return choice

    def _text(self, ids):
        """Return the text of some tokens, which many requests to all servers of a network ask for."""
        if self.memo is None:
            return self.tokenizer.decode(ids)
        key = ("text", *ids)
        if key not in self.memo:
            self.memo[key] = self.tokenizer.decode(ids)
        return self.memo[key]

    def _log_probabilities(self, written, body):
        """Return what is said of each text of a reading, new tokens and their rows; all are computed together."""
        if (most := body.get("logprobs")) is None:
            return [None] * len(written)
        tokens, values, rows, likeliest, sizes = [], [], [], [], []
        for reading, new, of_new in written:
            echoed = min(map(len, (reading.ids, reading.values, reading.listed))) if body.get("echo") else 0
            tokens += [*reading.ids[:echoed], *new]
            values += [*reading.values[:echoed], *(row[token] for token, row in zip(new, of_new, strict=True))]
            if echoed:
                rows.append(reading.listed[:echoed])
                likeliest.append(self._likeliest(reading, echoed, most))
            if new:
                rows.append(np.array(of_new))
                likeliest.append(largest(rows[-1], most))
            sizes.append(echoed + len(new))
        rows = np.concatenate(rows) if rows else np.zeros((0, most + 1))
        likeliest = np.concatenate(likeliest) if likeliest else np.zeros((0, most), np.int64)
        values, own = np.array(values), likeliest == np.reshape(tokens, (-1, 1))
        best = np.where(own, values[:, None], np.take_along_axis(rows, likeliest, 1))
        given, best = self._numbers(values), [self._numbers(column) for column in best.T]
        names, columns = self._names(tokens, body), [self._names(column, body) for column in likeliest.T.tolist()]
        tops = [
            dict(zip([column[place] for column in columns], [column[place] for column in best], strict=True))
            for place in range(len(tokens))
        ]
        if "bare-top-list" not in self.troubles:
            for top, name, value in zip(tops, names, given, strict=True):
                top.setdefault(name, value)
        known = np.isfinite(rows).any(axis=1).tolist()
        tops = [top if is_known else None for top, is_known in zip(tops, known, strict=True)]
        ends = np.cumsum(sizes).tolist()
        return [
            {
                "tokens": names[end - size : end],
                "token_logprobs": given[end - size : end],
                "top_logprobs": tops[end - size : end],
                "text_offset": np.cumsum([0, *map(len, names[end - size : end])])[:-1].tolist(),
            }
            for size, end in zip(sizes, ends, strict=True)
        ]

    def _likeliest(self, reading, echoed, most):
        """Return the likeliest tokens of the first places of a prompt, which all honest servers of a network list."""
        if self.memo is None or self.memo.get(tuple(reading.ids)) is not reading.listed:
            return largest(reading.listed[:echoed], most)
        key = ("likeliest", most, *reading.ids)
        if key not in self.memo:
            self.memo[key] = largest(reading.listed, most)
        return self.memo[key][:echoed]

    def _names(self, tokens, body):
        if body.get("return_tokens_as_token_ids") and "text-only" not in self.troubles:
            return [f"token_id:{token}" for token in tokens]
        return [self.tokenizer.decode([token]) for token in tokens]

    def _numbers(self, values):
        if "finite-floor" in self.troubles:
            values = np.where(values < -9999, -9999.0, values)
        if "rounding-noise" in self.troubles:
            with self._lock:
                drawn = self._drawn["noise"] + np.arange(1, len(values) + 1)
                self._drawn["noise"] += len(values)
            values = values * (1 + 1e-6 * np.sin(drawn * 1.7))
        return [None if np.isnan(value) else value for value in values.astype(np.float32).tolist()]


def largest(rows, most):
    """Return the places of the largest values of each row, shape (rows, most)."""
    if not most:
        return np.zeros((len(rows), 0), np.int64)
    return torch.topk(torch.as_tensor(rows), most).indices.numpy()  # in a fifth of argpartition's time


class _Handler(BaseHTTPRequestHandler):
    served: CompletionServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._send(*self.served.described(self.path))

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        trouble = self.served.trouble_with(self.path, raw)
        answer = self.served.answered(self.path, self.headers, raw, trouble)
        if answer is None:
            self.close_connection = True
        else:
            self._send(*answer, cut=trouble == "truncated")

    def _send(self, status, content, headers=(), cut=False):
        data = json.dumps(content).encode()
        data = data[: len(data) // 2] if cut else data
        with suppress(ConnectionError):  # of a client that did not wait
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **dict(headers),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)


class Direct(httpx.AsyncBaseTransport):
    """Carries the requests of a client to a running server of this process without a connection, which takes more time
    than many answers. A server whose troubles are those of connections needs one.
    """

    async def handle_async_request(self, request):
        server = _RUNNING[request.url.port]
        if request.method == "GET":
            status, content, *_ = server.described(request.url.path)
        else:
            status, content, *_ = server.answered(request.url.path, request.headers, request.content)
        return httpx.Response(status, content=json.dumps(content).encode())
