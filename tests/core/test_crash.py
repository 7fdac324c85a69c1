"""Killed at any moment: the state is before or after a commit, and no reply is paid for twice."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hippo_core.errors import PermanentModelError
from hippo_core.testing import (
    HashEmbedder,
    LoggedChatModel,
    LoggedEmbedder,
    ScriptedChatModel,
    replies,
)
from hippo_core.types import Message

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "crash.py"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.skipif(sys.platform == "win32", reason="kills by SIGKILL")
def test_a_killed_process_loses_no_commit_and_no_reply(tmp_path):
    seen = tmp_path / "seen.json"
    command = [sys.executable, str(SCRIPT), "--kills", "8", "--seed", "5", "--json", str(seen)]
    done = subprocess.run(
        command, env=ENV, timeout=300, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(seen.read_text())
    assert told["kills"] >= 8
    assert told["crash_points_survived"] == told["kills"]
    assert told["replies_paid_twice_beyond_in_flight"] == 0


# -- the log that tells what was paid for ----------------------------------------------------------

ASK = [Message("user", "Who?")]


async def test_a_logged_reply_is_on_disk_before_it_is_given_back(tmp_path):
    log = tmp_path / "log"
    seen = []

    class Chat(ScriptedChatModel):
        def complete(self, messages):
            seen.append(len(replies(log)))
            return super().complete(messages)

    chat = LoggedChatModel(Chat(lambda _: "Ada"), log)
    embedder = LoggedEmbedder(HashEmbedder(), log)
    assert chat.complete(ASK) == await chat.acomplete(ASK)
    rows = embedder.embed(["a", "b"], "phrase")
    assert (rows == await embedder.aembed(["a", "b"], "phrase")).all()
    one, two, three, four = replies(log)
    assert seen == [0, 1]
    assert one.kind == two.kind == "chat"
    assert one.keys == two.keys
    assert three.kind == four.kind == "phrase"
    assert three.keys == four.keys == ("a", "b")
    assert str(os.getpid()) in one.asker


def test_other_prompts_have_other_keys(tmp_path):
    chat = LoggedChatModel(ScriptedChatModel(lambda _: "Ada"), tmp_path / "log")
    prompts = [ASK, [*ASK, *ASK], [Message("system", "Who?")], [Message("user", "What?")]]
    for prompt in prompts:
        chat.complete(prompt)
    assert len({reply.keys for reply in replies(tmp_path / "log")}) == len(prompts)


def test_a_failure_is_no_reply(tmp_path):
    chat = LoggedChatModel(ScriptedChatModel([PermanentModelError("401")]), tmp_path / "log")
    with pytest.raises(PermanentModelError):
        chat.complete(ASK)
    assert replies(tmp_path / "log") == []


def test_a_logged_model_is_known_by_the_name_of_the_one_inside(tmp_path):
    assert LoggedChatModel(ScriptedChatModel([], name="mine"), tmp_path).name == "mine"
    embedder = LoggedEmbedder(HashEmbedder(name="mine"), tmp_path)
    assert (embedder.name, embedder.one_query_encoding) == ("mine", True)


def test_a_half_written_line_is_left_out_and_the_next_one_is_whole(tmp_path):
    log = tmp_path / "log"
    chat = LoggedChatModel(ScriptedChatModel(lambda _: "Ada"), log)
    chat.complete(ASK)
    whole = log.read_bytes()
    log.write_bytes(whole + whole[: len(whole) // 2])
    assert len(replies(log)) == 1
    chat.complete(ASK)
    assert len(replies(log)) == 2


def test_threads_share_a_log(tmp_path, at_once):
    chat = LoggedChatModel(ScriptedChatModel(lambda _: "Ada"), tmp_path / "log")
    start = threading.Barrier(8)

    def ask():
        start.wait()
        for _ in range(20):
            chat.complete(ASK)

    at_once(*[ask] * 8)
    logged = replies(tmp_path / "log")
    assert len(logged) == 160
    assert len({reply.asker for reply in logged}) == 8
