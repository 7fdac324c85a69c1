"""The demo with a chat model behind an OpenAI-compatible endpoint on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"

pytest.importorskip("langchain_openai", reason="needs hippo-core[demo]")
pytest.importorskip("onnxruntime", reason="needs hippo-core[local]")


class Endpoint(BaseHTTPRequestHandler):
    """Answers each of the prompts in the shape that it asks for."""

    asked: Counter[str] = Counter()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stage, text = _reply(body["messages"][0]["content"], body["messages"][-1]["content"])
        self.asked[stage] += 1
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Keep the test's output clean."""


def _reply(system: str, last: str) -> tuple[str, str]:
    if "Answer in a few words" in last:
        return "answer", "the scripted answer"
    names = re.findall(r"[A-Z]\w+(?: [A-Z]\w+)*", last.split("```")[1])
    if '"triples"' in system:
        triples = [[names[0], "goes with", name] for name in names[1:]]
        return "triples", json.dumps({"triples": triples})
    if '"keep"' in system:
        return "recognition", "```json\n" + json.dumps({"keep": [1, 2]}) + "\n```"
    return "entities", json.dumps({"named_entities": names})


@pytest.fixture
def base_url() -> Iterator[str]:
    Endpoint.asked = Counter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.enable_socket
def test_the_demo_lets_a_configured_chat_model_read_judge_and_answer(base_url: str) -> None:
    env = os.environ | {"HIPPO_BASE_URL": base_url, "HIPPO_MODEL": "scripted", "HIPPO_API_KEY": "k"}
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        env=env,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Endpoint.asked == {"entities": 42, "triples": 42, "recognition": 26, "answer": 26}
    assert done.stdout.count("answer of the model: the scripted answer") == 26
    assert "Read by scripted" in done.stdout
