"""Text to tokens and back: a byte-level BPE trained on the text itself, or the user's own tokenizer.

Such work computes outside Python, in a thread, so that Ctrl-C and `kill` end it at once; it reports how far it is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from railbed.errors import DataError, ToolMissing
from railbed.model.requirements import install_extra
from railbed.train.base.files import TOKENIZER

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"
ENDS = (END_OF_TEXT, "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "[SEP]")
"""Names that tokenizers use for the token between two texts."""
DEFAULT_VOCABULARY = 8192
TRAINED_ON = 24 << 20
"""Characters that a tokenizer is trained on, at most; more do not improve it."""


def library() -> Any:  # noqa: ANN401 -- a module, and one that may not be there
    """Return the library; raise ToolMissing if it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise ToolMissing(
            "the Python library tokenizers is not installed",
            hint=f"`{install_extra('train')}` installs what training needs",
        ) from None
    return tokenizers


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Return a byte-level BPE of at most that many tokens; the end of a text is token 0."""
    tools = library()
    tokenizer: Tokenizer = tools.Tokenizer(tools.models.BPE())
    tokenizer.pre_tokenizer = tools.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tools.decoders.ByteLevel()
    trainer = tools.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=tools.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_at_most(texts, TRAINED_ON), trainer)
    return tokenizer


def _at_most(texts: Iterable[str], characters: int) -> Iterator[str]:
    for text in texts:
        yield text
        characters -= len(text)
        if characters <= 0:
            return


def open_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder, or of a tokenizer.json; raise DataError if there is none."""
    file = folder / TOKENIZER if folder.is_dir() else folder
    if not file.is_file():
        raise DataError(f"there is no tokenizer at {folder}", hint="name a folder with a tokenizer.json")
    try:
        tokenizer: Tokenizer = library().Tokenizer.from_file(str(file))
    except ToolMissing:
        raise
    except Exception as error:
        raise DataError(f"{file} is not a tokenizer: {str(error)[:200]}") from None
    return tokenizer


def end_of_text(tokenizer: Tokenizer) -> int:
    """Return the token between two texts; 0 if the tokenizer has none."""
    ids = (tokenizer.token_to_id(name) for name in ENDS)
    return next((token for token in ids if token is not None), 0)


def configuration() -> str:
    """Return the text of tokenizer_config.json, for transformers."""
    ends = {"bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "unk_token": END_OF_TEXT}
    return json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **ends}, indent=2) + "\n"


def encode_text(folder: Path, text: str) -> list[int]:
    """Return a text as tokens of the tokenizer in a folder of prepared data."""
    return list(open_tokenizer(folder).encode(text, add_special_tokens=False).ids)


def decode_tokens(folder: Path, tokens: Sequence[int]) -> str:
    """Return tokens as text, by the tokenizer in a folder of prepared data; unknown tokens are left out."""
    return str(open_tokenizer(folder).decode(list(tokens), skip_special_tokens=True))


Report = Callable[[str, int, int], None]
"""Receives the current activity, how much of it is done, and the total; 0 of 0 if unknown."""


T = TypeVar("T")
POLL_SECONDS, GRACE_SECONDS = 0.2, 1.0
"""How often signals are handled, and how long work that was given up may take to stop writing files."""


class _GivenUp(BaseException):
    """Raised in the thread once nobody waits for its result."""


def run_interruptibly(work: Callable[[Report], T], report: Report) -> T:
    """Return the result of work that is given a function to report to; raise what it raises.

    Python handles signals in its main thread only, and only between two of its own instructions: the work has a thread
    of its own, which ends with the process if the caller is interrupted.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    given_up = threading.Event()

    def checked_report(what: str, done: int, total: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        report(what, done, total)

    def run() -> None:
        try:
            results.append(work(checked_report))
        except BaseException as error:  # raised again where somebody waits
            errors.append(error)

    thread = threading.Thread(target=run, name="interruptible", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(POLL_SECONDS)
    except BaseException:
        given_up.set()
        if thread.is_alive():
            thread.join(GRACE_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]
