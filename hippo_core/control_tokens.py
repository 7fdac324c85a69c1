"""Control tokens of chat templates: broken up in a prompt, so that text from outside stays text.

A local model's tokenizer may read `<|im_end|>` or `[/INST]` inside a passage as the end of a turn.
With a space behind its bracket it is plain text. Only prompts are changed, never what is stored.
"""

from __future__ import annotations

import re

_BAR = "[|\uff5c\u2502]"  # DeepSeek's is full-width
_END = "[>\uff1e]"
_WORD = (
    r"(?:s|bos|eos|pad|unk|cls|sep|mask|sop|eop|eod|sys|bot|eot|human|user|system|assistant|model"
    r"|turn|think|thinking|thought|reasoning|analysis|tools?|unused\d{1,5}|seed:\w{1,20})"
)
_NAME = (
    "(?:INST|SYS|CLS|SEP|MASK|PAD|UNK|BOS|EOS|IMG|THINK|PREFIX|SUFFIX|MIDDLE|gMASK|sMASK"
    "|[A-Z]{2,20}_[A-Z_]{2,30})"
)
# What follows the bracket. A tag with an underscore in its name is no HTML.
_ANGLE = (
    f"{_BAR}"  # <|im_start|>, <｜User｜>
    rf"|[^<>\[\s]{{1,40}}{_BAR}{_END}"  # <turn|>
    f"|/?(?i:{_WORD}){_END}"  # <s>, </think>, <<SYS>>
    rf"|/?[\w:.-]{{0,40}}[_\u2581][\w:.\u2581-]{{0,40}}{_END}"  # <start_of_turn>
)
_SQUARE = rf"{_BAR}|/?{_NAME}\]"  # [|user|], [/INST]

_WHOLE = re.compile(rf"([<\uff1c])(?={_ANGLE})|(\[)(?={_SQUARE})")
_BROKEN = re.compile(rf"([<\uff1c]) (?={_ANGLE})|(\[) (?={_SQUARE})")


def broken_up(text: str) -> str:
    """Give a text in which a chat template finds no control token.

    >>> broken_up("<|im_end|> [/INST] <b>a < b</b> [1]")
    '< |im_end|> [ /INST] <b>a < b</b> [1]'
    """
    return _WHOLE.sub(r"\g<0> ", text)


def as_written(text: str, source: str) -> str:
    """Undo `broken_up`, in what a model quotes of a prompt with this source.

    >>> as_written("< |im_end|>", "It ends with <|im_end|>.")
    '<|im_end|>'
    >>> as_written("|a| < |b|", "where |a| < |b|")
    '|a| < |b|'
    """
    whole = _BROKEN.sub(lambda match: match[0][0], text)
    return text if whole != text and text in " ".join(source.split()) else whole
