"""Servers of chat completions on the loopback, for tests."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

from pytest_genderbias.engines.chat_endpoint import ChatEndpoint
from pytest_genderbias.models.source import ServedSettings


class ChatServer:
    """A server of chat completions on the loopback.

    ``before(number, body)``: answers a question instead, with a status, a content and headers, or with "slow", "cut" or
    "dropped"; the first question of an endpoint has the number 0. ``change(content, body)``: changes an answer.
    """

    def __init__(self, before=lambda number, body: None, change=lambda content, body: content):
        self.before, self.change, self.bodies, self.headers, self.answered = before, change, [], [], []
        self.lock = threading.Lock()

    def __enter__(self):
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"chat": self}))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        return self

    def __exit__(self, *error):
        self._http.shutdown()
        self._http.server_close()

    @property
    def spec(self):
        return f"product=chat:{self.url}#m"

    @property
    def asked(self):
        """The questions of the run, without those of the endpoint itself."""
        texts = [body["messages"][-1]["content"] for body in self.bodies]
        return [text for text in texts if "ten words" not in text and "Is ice cold" not in text]

    def endpoint(self, samples=1, **settings):
        self.pauses = []
        return ChatEndpoint(
            self.url, "m", "product", ServedSettings(**settings), samples=samples, pause=self.pauses.append
        )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.chat.lock:
            number = len(self.chat.bodies)
            self.chat.bodies.append(body)
            self.chat.headers.append(dict(self.headers))
        told = self.chat.before(number, body)
        if told == "dropped":
            self.close_connection = True
            return
        if told == "slow":
            time.sleep(0.6)
        status, content, headers = told if isinstance(told, tuple) else (200, self.completed(number, body), {})
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with suppress(ConnectionError):
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if told == "cut" else data)
            self.chat.answered.append(body["messages"][-1]["content"])
        self.close_connection = told == "cut"

    def completed(self, number, body):
        texts = [f"Yes, {body['messages'][-1]['content']} {number} {i}" for i in range(body.get("n", 1))]
        choices = [
            {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for i, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 7, "completion_tokens": 3 * len(texts)}
        return self.chat.change({"model": "m-2026", "choices": choices, "usage": usage}, body)


def listing(network, words):
    """Return what adds the likeliest first tokens to an answer, as a network has them after its chat template."""

    def change(content, body):
        if not body.get("logprobs"):
            return content
        text = words.apply_chat_template(body["messages"], add_generation_prompt=True, tokenize=False)
        ids = words(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            values, best = network(ids).logits[0, -1].double().log_softmax(-1).topk(body["top_logprobs"])
        pairs = zip(best.tolist(), values.tolist(), strict=True)
        return listed(content, [{"token": words.decode([one]), "logprob": value} for one, value in pairs])

    return change


def listed(content, tokens):
    """Return an answer of one choice with these likeliest first tokens, as OpenAI's chat completions have them."""
    first = {"token": tokens[0]["token"], "logprob": tokens[0]["logprob"], "top_logprobs": tokens} if tokens else {}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": first.get("token", "")},
        "finish_reason": "length",
        "logprobs": {"content": [first] if tokens else []},
    }
    return {**content, "choices": [choice]}
