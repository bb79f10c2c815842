"""Answers of the hub, by a real server in its place: each is told apart, and a revision is pinned and named."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from support.tiny_checkpoints import save_checkpoint

#: Status, error code and message of the hub's answer, by the name of the model.
ANSWERS = {
    "gated": (401, "GatedRepo", "Access to model org/gated is restricted."),
    "gated-for-this-account": (403, "GatedRepo", "Access to model is restricted."),
    "private-or-absent": (401, "RepoNotFound", "Invalid username or password."),
    "login": (401, None, None),
    "forbidden": (403, None, "Forbidden"),
    "busy": (429, None, "Too Many Requests"),
    "broken": (503, None, None),
    "absent": (404, "RepoNotFound", "Repository not found"),
    "empty": (404, "EntryNotFound", "Entry not found"),
    "teapot": (418, None, None),
}
COMMITS = {"main": "a" * 40, "v1": "b" * 40}
LOADS = """
import json, sys, time
time.sleep = lambda seconds: None  # the hub's client pauses for half a minute before it gives up a hub that is busy
from pytest_genderbias import load_model
from pytest_genderbias.errors import BiasError
for spec in sys.argv[1:]:
    try:
        model = load_model(f"m={spec}", device="cpu")
        print(json.dumps({spec: [model.spec, model.details.get("revision"), model.fingerprint]}), flush=True)
    except BiasError as error:
        print(json.dumps({spec: f"{type(error).__name__}: {error}"}), flush=True)
"""


class Hub(BaseHTTPRequestHandler):
    """Gives the files of one checkpoint by its revisions, and refuses other models. Until it has refused one, weights
    are cut off in their middle.
    """

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[:1] == ["org"] and parts[2:3] == ["resolve"]:
            self._resolve(parts[1], parts[3], "/".join(parts[4:]))
        elif parts[:3] == ["api", "models", "org"] and parts[4:5] == ["tree"]:  # a folder that is not there
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        elif parts[:3] == ["api", "models", "org"]:
            self._send(200, b'{"siblings": []}', {"Content-Type": "application/json"})
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _resolve(self, name, revision, file):
        if name in ANSWERS:
            self.server.cuts = False
            status, code, message = ANSWERS[name]
            self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": message})
            return
        commit = COMMITS.get(revision, revision)
        if commit not in COMMITS.values():
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return
        path = self.server.folders[commit] / file
        if not path.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        content = path.read_bytes()
        given = len(content) // 2 if self.server.cuts and path.suffix == ".safetensors" else None
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": commit}
        self._send(200, content, headers, given)

    def _send(self, status, content, headers, given=None):
        self.send_response(status)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:given])
        self.close_connection |= given is not None

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What loading each model ends with, by its SPEC, in one process."""
    folder = tmp_path_factory.mktemp("hub")
    folders = {commit: folder / commit for commit in COMMITS.values()}
    for seed, path in enumerate(folders.values()):
        save_checkpoint("bert", path, seed=seed)
    names = "cut", *ANSWERS, "cut@main", "tiny", "tiny@v1", f"tiny@{'b' * 40}", "tiny@v9"
    specs = [f"org/{name}" for name in names]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.daemon_threads, server.folders, server.cuts = True, folders, True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        settings = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(folder / "home")}
        ended = subprocess.run(
            [sys.executable, "-c", LOADS, *specs], env=kept | settings, capture_output=True, text=True, timeout=300
        )
        server.shutdown()
    assert ended.returncode == 0, ended.stderr
    found = {}
    for line in ended.stdout.splitlines():
        found |= json.loads(line)
    return found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gated", ["has org/gated, which is gated", "HF_TOKEN", "401"]),
        ("gated-for-this-account", ["has org/gated-for-this-account, which is gated", "403"]),
        ("private-or-absent", ["asks for a login", "or there is none of that name", "401", "--bias-model=m="]),
        ("login", ["asks for a login", "401"]),
        ("forbidden", ["forbids this account to read org/forbidden", "403"]),
        ("busy", ["takes no more requests", "429"]),
        ("broken", ["a fault of its own", "503"]),
        ("absent", ["no model 'org/absent'", "the hub has none of that name"]),
        ("empty", ["the config of m (org/empty) cannot be read", "config.json"]),
        ("teapot", ["refuses the request for org/teapot", "418"]),
        ("tiny@v9", ["the hub has org/tiny, but no revision v9"]),
    ],
)
def test_answers_of_the_hub_are_told_apart(said, name, words):
    message = said[f"org/{name}"]
    assert message.startswith("ModelError: ")
    assert all(word in message for word in words), message
    assert ("none of that name" in message) == (name in ("absent", "private-or-absent", "login"))


def test_half_a_download_says_so_and_goes_on(said):
    assert "run again where the hub can be reached" in said["org/cut"] and "weights of m" in said["org/cut"]
    assert said["org/cut@main"][2] == said["org/tiny"][2]


def test_a_revision_is_pinned_and_the_signature_names_its_commit(said):
    spec, revision, first = said["org/tiny"]
    assert (spec, revision) == ("org/tiny", None)
    spec, revision, second = said["org/tiny@v1"]
    assert (spec, revision) == ("org/tiny@v1", "b" * 40)
    assert first != second
    assert said[f"org/tiny@{'b' * 40}"] == [f"org/tiny@{'b' * 40}", "b" * 40, second]
