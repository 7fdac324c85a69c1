"""The page on local models: its code runs, and the request that it shows is the one sent."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "local-models.md"
PAGE = FILE.read_text("utf-8") if FILE.exists() else ""
SHOWN_URL = "http://localhost:8080/v1"

pytestmark = [
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(not PAGE, reason="a source distribution has no docs"),
]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


class Endpoint(BaseHTTPRequestHandler):
    """Answers in the shape that a request asks for, and keeps what it was asked."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        task = body["messages"][0]["content"]
        text = "Answer: Ada Lovelace"
        if '"named_entities"' in task:
            text = '{"named_entities": ["Ada Lovelace"]}'
        elif '"triples"' in task:
            text = '{"triples": [["Ada Lovelace", "wrote", "the first program"]]}'
        elif '"keep"' in task:
            text = '{"keep": [1]}'
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

    def log_message(self, *_args):
        """Keep the test's output clean."""


@pytest.fixture
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def matches(shown, sent):
    """Say whether a value was sent as the page shows it, which leaves text out at `...`."""
    if isinstance(shown, dict):
        return shown.keys() == sent.keys() and all(matches(shown[k], sent[k]) for k in shown)
    if isinstance(shown, list):
        return len(shown) == len(sent) and all(map(matches, shown, sent))
    if isinstance(shown, str):
        pattern = ".*".join(re.escape(part) for part in shown.split("..."))
        return re.fullmatch(pattern, sent, re.S) is not None
    return shown == sent


def test_the_code_runs_and_the_request_that_is_shown_is_sent(endpoint, tmp_path):
    code = "\n".join(blocks("python"))
    assert code.count(SHOWN_URL) == 4
    program = tmp_path / "program.py"
    url = f"http://127.0.0.1:{endpoint.server_port}/v1"
    program.write_text(code.replace(SHOWN_URL, url) + "\nprint(len(memory))\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"},
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"
    (shown,) = map(json.loads, blocks("json"))
    sent = [body for path, body in endpoint.asked if matches(shown, body)]
    assert f"`POST {endpoint.asked[0][0]}`" in PAGE
    # Both frameworks send it, and with a schema both ask for the same.
    asked = [body for _, body in endpoint.asked if body["messages"] == sent[0]["messages"]]
    assert ["response_format" in body for body in asked] == [False, False, True, True]
    assert sent == asked[:2]
