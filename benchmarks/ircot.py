"""IRCoT over each method: recall, calls, tokens and time of a query, beside those of one step.

Runs offline, without a key: spaCy reads, MiniLM embeds, over the passages of the demo and those of
path_finding.py in one memory; its questions are both sets, apart. The chat model is a script with a
fixed latency, which cannot think, but reads as well as anyone could: among the passages that it is
shown it knows the needed ones, and quotes of them the sentence that has most words in common with
the needed ones that it was not shown; never a text that was not found. Where none is left to quote
it quotes what ranks best; where all are shown it answers. So recall with thoughts is an upper bound
of what these prompts may reach. As a judge of linked triples it keeps the first four, and as a
reader of a question it names what spaCy would. Prompts, and so tokens and calls, are the real ones;
seconds are those of the latency that was chosen, and of this machine.
Results go to benchmarks/results/ircot.json, with a .meta.json beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import hippo_core
from hippo_core import HippoConfig, HippoRAG, IterativeRetrieval, Message, Passage
from hippo_core.evaluation import paired_bootstrap, recall_at_k, recall_table
from hippo_core.local import MiniLM, SpacyOpenIE
from hippo_core.testing import ScriptedChatModel, SlowChatModel
from hippo_core.tokens import counted_by
from hippo_core.types import Completion

HERE = Path(__file__).parent
OUT = HERE / "results" / "ircot.json"
DEMO = HERE.parent / "examples"
SETS = {
    "demo": (DEMO / "demo_corpus.jsonl", DEMO / "demo_questions.jsonl"),
    "path-finding": (HERE / "path_finding_corpus.jsonl", HERE / "path_finding_questions.jsonl"),
}
CUTS = (2, 5)
K = 5
SYSTEMS: dict[str, HippoConfig] = {
    "dense": HippoConfig.dense(),
    "hipporag1": HippoConfig.hipporag(),
    "hipporag2": HippoConfig.hipporag2(),
    "default": HippoConfig(),
}
ITERATIVE_BASELINE = "dense"


@dataclass(frozen=True)
class Question:
    """A question, its answer, and the passages that one needs for it."""

    text: str
    answer: str
    needs: tuple[str, ...]


class Script(ScriptedChatModel):
    """Reads as the docstring of this file says."""

    def __init__(self, passages: Sequence[Passage], questions: Sequence[Question]) -> None:
        self._by_text = {passage.full_text: passage for passage in passages}
        self._by_id = {passage.id: passage for passage in passages}
        self._questions = {question.text: question for question in questions}
        self._openie = SpacyOpenIE()
        super().__init__(self._reply, "script")

    def _reply(self, messages: Sequence[Message]) -> Completion:
        task, shown = messages[0].content, _blocks(messages[-1].content)
        if '"keep"' in task:
            reply = '{"keep": [1, 2, 3, 4]}'
        elif '"named_entities"' in task:
            names = list(self._openie.query_entities(shown["Question"]))
            reply = json.dumps({"named_entities": names})
        else:
            reply = self._thought(shown)
        return Completion(reply)  # its tokens are counted as those of any model are

    def _thought(self, shown: Mapping[str, str]) -> str:
        question = self._questions[shown["Question"]]
        found = [self._by_text[text] for name, text in shown.items() if name.startswith("Passage")]
        said = {text for name, text in shown.items() if name.startswith("Thought")}
        missing = set(question.needs) - {passage.id for passage in found}
        if not missing:
            return f"Answer: {question.answer}"
        sought = set().union(*(_words(self._by_id[id_].full_text) for id_ in missing))
        needed = [passage for passage in found if passage.id in question.needs]
        for passage in (*needed, *found):
            sentences = re.split(r"(?<=[.!?])\s+", passage.text)
            best = max(sentences, key=lambda sentence: len(_words(sentence) & sought))
            # As a reader would, with the name of what it is about.
            thought = " ".join(f"{passage.title}: {best}".split())
            if thought not in said:
                return thought
        return f"Answer: {question.answer}"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.1, help="seconds of a chat completion")
    parser.add_argument("--max-steps", type=int, default=4, help="retrievals of IRCoT")
    parser.add_argument("--questions", type=int, default=None, help="of each set; all by default")
    parser.add_argument("--out", type=Path, default=OUT, help="the results file")
    options = parser.parse_args()
    passages = [Passage(**row) for corpus, _ in SETS.values() for row in _jsonl(corpus)]
    sets = {name: _questions(file)[: options.questions] for name, (_, file) in SETS.items()}
    openie, embedder = SpacyOpenIE(), MiniLM()
    items = [(passage, openie.extract(passage.full_text)) for passage in passages]
    script = Script(passages, [question for asked in sets.values() for question in asked])
    chat = SlowChatModel(script, options.latency)
    rows, stats = [], []
    memories: dict[str, HippoRAG] = {}  # one for each text under which triples are embedded
    for system, config in SYSTEMS.items():
        memory = memories.get(config.triple_rendering)
        if memory is None:
            memory = memories[config.triple_rendering] = HippoRAG(None, embedder, config=config)
            memory.add_extracted(items)
            stats.append(f"{config.triple_rendering}: {memory.stats()}")
        ways = _Ways(memory, config, chat, options.max_steps)
        for name, asked in sets.items():
            rows += [{"set": name, "system": system, **row} for row in ways.measured(asked)]
    for memory in memories.values():
        memory.close()
    _compare(rows)
    _print(rows, options)
    _write(options, rows, stats)
    return 0


@dataclass(frozen=True)
class _Ways:
    """One method, in one step and in some."""

    memory: HippoRAG
    config: HippoConfig
    chat: SlowChatModel
    max_steps: int

    def measured(self, asked: Sequence[Question]) -> list[dict[str, Any]]:
        """Ask each question both ways, in turns; give a row for each way."""
        found: dict[int, list[IterativeRetrieval]] = {1: [], self.max_steps: []}
        seconds: dict[int, list[float]] = {1: [], self.max_steps: []}
        self._ask(asked[0], 1)  # what a first query derives is no part of the others
        for number, question in enumerate(asked):
            for most in sorted(found, reverse=bool(number % 2)):
                started = time.perf_counter()
                found[most].append(self._ask(question, most))
                seconds[most].append(time.perf_counter() - started)
        return _rows(asked, found, seconds)

    def _ask(self, question: Question, most: int) -> IterativeRetrieval:
        return self.memory.ircot(
            question.text, k=K, max_steps=most, config=self.config, chat_model=self.chat
        )


def _rows(
    asked: Sequence[Question],
    found: Mapping[int, Sequence[IterativeRetrieval]],
    seconds: Mapping[int, Sequence[float]],
) -> list[dict[str, Any]]:
    gold = {question.text: question.needs for question in asked}
    rows = []
    for most, results in found.items():
        run = {r.query: [hit.passage.id for hit in r if hit.score > 0] for r in results}
        recall = recall_table(run, gold, recall=CUTS, all_recall=CUTS)
        row: dict[str, Any] = {"max_steps": most}
        row |= {name: round(value, 1) for name, value in recall.items()}
        chat_stages = [
            [usage for stage, usage in r.usage.stages.items() if stage != "embedding"]
            for r in results
        ]
        row |= {
            "retrievals": fmean(sum(s.retrieval is not None for s in r.steps) for r in results),
            "chat_calls": fmean(sum(u.calls for u in stages) for stages in chat_stages),
            "embedding_calls": fmean(r.usage.calls - r.usage.chat_calls for r in results),
            "chat_tokens": fmean(
                sum(u.input_tokens + u.output_tokens for u in stages) for stages in chat_stages
            ),
            "seconds": fmean(seconds[most]),
            "ended": dict(Counter(r.ended.value for r in results)),
        }
        row["recall@5_by_question"] = [100 * recall_at_k(run[q], gold[q], 5) for q in gold]
        rows.append(row)
    return rows


def _compare(rows: list[dict[str, Any]]) -> None:
    """Add to each row of steps its ratios to one step of the same, and the gain in recall.

    The row of iterative dense retrieval has its ratios to one step of the others too: what the
    papers compare.
    """
    single = {(row["set"], row["system"]): row for row in rows if row["max_steps"] == 1}
    for row in rows:
        if row["max_steps"] == 1:
            continue
        own = single[row["set"], row["system"]]
        row["to_one_step"] = _ratios(row, own)
        difference = paired_bootstrap(row["recall@5_by_question"], own["recall@5_by_question"])
        row["minus_one_step_recall@5"] = [round(value, 1) for value in difference]
        if row["system"] == ITERATIVE_BASELINE:
            row["to_one_step_of"] = {
                system: _ratios(row, single[row["set"], system])
                for system in SYSTEMS
                if system != ITERATIVE_BASELINE
            }
    for row in rows:
        del row["recall@5_by_question"]
        for name in ("retrievals", "chat_calls", "embedding_calls", "chat_tokens", "seconds"):
            row[name] = round(row[name], 3 if name == "seconds" else 1)


def _ratios(row: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float | None]:
    """Divide what one costs by what the other does; None where that is nothing."""
    names = ("chat_calls", "chat_tokens", "seconds")
    return {n: round(row[n] / other[n], 1) if other[n] else None for n in names}


def _print(rows: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> None:
    print(f"A scripted chat model of {options.latency} s; means of a query. In brackets: ratio to")
    print("one step of the same method. R@k in percent; the gain at R@5 has its 95% interval.")
    for set_ in SETS:
        print(f"\n{set_}\n{'':<22}{'R@2':>6}{'R@5':>6}{'AR@5':>6}{'chat calls':>16}"
              f"{'chat tokens':>18}{'seconds':>16}   gain at R@5")  # fmt: skip
        for row in rows:
            if row["set"] != set_:
                continue
            name = row["system"] + (" + IRCoT" if row["max_steps"] > 1 else "")
            line = f"{name:<22}" + "".join(
                f"{row[cut]:6.1f}" for cut in ("recall@2", "recall@5", "all-recall@5")
            )
            to = row.get("to_one_step", {})
            for column, width in (("chat_calls", 16), ("chat_tokens", 18), ("seconds", 16)):
                ratio = to.get(column)
                shown = f"{row[column]:g}" + (f" (x{ratio:g})" if ratio else "")
                line += f"{shown:>{width}}"
            if to:
                mean, low, high = row["minus_one_step_recall@5"]
                line += f"   {mean:+.1f} [{low:+.1f}, {high:+.1f}]"
            print(line)
        for row in rows:
            for system, to in row.get("to_one_step_of", {}).items():
                if row["set"] == set_:
                    told = ", ".join(f"{n.replace('_', ' ')} x{v:g}" for n, v in to.items() if v)
                    print(f"{row['system']} + IRCoT beside one step of {system}: {told}")


def _write(
    options: argparse.Namespace, rows: Sequence[Mapping[str, Any]], stats: Sequence[str]
) -> None:
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    packages = ("numpy", "scipy", "SQLAlchemy", "spacy", "onnxruntime")
    meta = {
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "versions": {"hippo-core": hippo_core.__version__, **{p: version(p) for p in packages}},
        "encoder": "all-MiniLM-L6-v2, int8 ONNX",
        "openie": SpacyOpenIE().fingerprint,
        "chat_model": f"a script, see the docstring of benchmarks/ircot.py; {options.latency} s "
        "for each completion",
        "tokens_counted_by": counted_by(),
        "max_steps": options.max_steps,
        "k": K,
        "settings": {system: repr(config) for system, config in SYSTEMS.items()},
        "indexes": list(stats),
    }
    text = json.dumps(meta, indent=1) + "\n"
    options.out.with_suffix(".meta.json").write_text(text, encoding="utf-8")


def _questions(file: Path) -> list[Question]:
    return [Question(row["question"], row["answer"], tuple(row["needs"])) for row in _jsonl(file)]


def _blocks(content: str) -> dict[str, str]:
    """Read the fenced blocks of a prompt, by label."""
    return {
        match[1]: match[3]
        for match in re.finditer(r"(?ms)^([^\n`]+):\n(`{3,})\n(.*?)\n\2$", content)
    }


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if len(word) > 3}


def _jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
