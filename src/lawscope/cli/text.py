"""``lawscope scan --text``: a language model, its tokenizer, and files of text as token batches."""

from __future__ import annotations

import codecs
import dataclasses
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.restore import unwrap
from lawscope.capture.session import Session
from lawscope.cli.scan import (
    build_target,
    explain_failures,
    find_device,
    find_loss,
    known_to,
    memory_of,
    quiet_warnings,
    read_set_options,
    split_names,
)
from lawscope.cli.shared import find_place, join_processes, speaks
from lawscope.data.tokens import MASKED_SHARE, TASKS, Task, TokenSource, context_of, vocabulary_of
from lawscope.data.windows import Frame, Windows, encoder_of, frame_of, pack, read_tokens_of
from lawscope.errors import LawscopeError
from lawscope.files import check_file, exists
from lawscope.laws.checkpoint import NotKeptError
from lawscope.laws.next_token.law import NextTokenSettings
from lawscope.laws.report import Report
from lawscope.laws.scan import scan
from lawscope.progress import announce
from lawscope.statistics.distributed import agree
from lawscope.statistics.prediction_residual import ENOUGH
from lawscope.zoo.networks.hugging_face import find_source, load_language_model, load_tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WINDOW = 512
PER_FEATURE = 2 * ENOUGH  # tokens measured without --tokens
# Of the tokens of a text, those that are measured, roughly.
SHARES = {"causal": 1.0, "masked": MASKED_SHARE, "encoder-decoder": 0.5}
UNFINISHED = "unfinished.safetensors"
PIECE_BYTES = 1 << 20
# What word tokenizers and web pages leave in corpora such as WikiText-2.
MARKS = re.compile(r"<unk>|&lt; ?unk ?&gt;|@[-,.]@|&(?:amp|apos|gt|lt|quot);")
MARKED = 0.01  # share of the words from which a warning says so


def scan_text(options: SimpleNamespace) -> Report:
    """Load, measure and report; in every process that torchrun started.

    The options are those of ``lawscope scan``, and ``folder``: where an interrupted scan is kept;
    None to keep nothing.
    """
    options.batch_size = options.batch_size or 8
    laws, settings = split_names(options.laws), read_set_options(options.set_ or ())
    options.own = _read_own(options, settings.get("next_token", {}))
    if laws is None or "next_token" in laws:
        settings["next_token"] = options.own
    with join_processes(), quiet_warnings():
        loaded, windows, doubts, kept = agree(lambda: _open(options), find_place()[1] > 1)
        # Only now, because the target may register a law.
        shared = known_to(laws, memory_of(options), options.typed)

        def measure(kept: Path | None) -> Report:
            return scan(
                loaded.model,
                loaded.source(windows),
                loss=find_loss(options.loss),
                laws=laws,
                control="auto" if options.control else None,
                name=loaded.name,
                settings=settings,
                checkpoint=kept,
                **shared,
            )

        with explain_failures("The model"):
            report: Report | None = None
            try:
                report = measure(kept)
            except NotKeptError as error:  # raised before anything is measured
                _give_up_keeping(error.law, options)
            # Not inside except: the error holds on to the untrained network of the first attempt.
            report = measure(None) if report is None else report
    results = {
        name: dataclasses.replace(result, warnings=(*result.warnings, *doubts))
        for name, result in report.results.items()
    }
    fed_in = {
        "text": [str(path) for path in options.text],
        "text_tokens": windows.text_tokens,
        "windows": len(windows.ids),
        "window": int(windows.ids.shape[1]),
        "before each window": list(windows.frame.before),
        "after each window": list(windows.frame.after),
        "batch_size": options.batch_size,
        "dtype": options.dtype,
        "device": options.device,
        "processes": find_place()[1],
    }
    return dataclasses.replace(report, results=results, settings={**report.settings, **fed_in})


def _read_own(options: SimpleNamespace, last: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the law of next-token prediction, with what ``--set`` says at last."""
    if options.dtype not in DTYPES:
        raise LawscopeError(f"--dtype {options.dtype} is not known; choose {', '.join(DTYPES)}.")
    if options.tokens not in (None, "all"):
        if not str(options.tokens).isdecimal():
            raise LawscopeError(f"--tokens {options.tokens} is not a number; give one, or 'all'.")
        options.tokens = int(str(options.tokens)[:18])
    if options.tokens == 0:
        raise LawscopeError("--tokens 0 leaves nothing to measure; give more, or 'all'.")
    names = ("precision", "normalization", "folds", "every", "task")
    own = {name: getattr(options, name) for name in names}
    own["targets"] = tuple(split_names(options.targets) or ())
    own |= last
    if own["task"] not in TASKS:
        raise LawscopeError(f"--task {own['task']} is not known; choose {', '.join(TASKS)}.")
    return own


@dataclass(frozen=True, eq=False)
class LanguageTarget:
    """A language model with its tokenizer, and what was asked about it."""

    name: str
    model: nn.Module
    tokenizer: Any
    task: Task
    options: SimpleNamespace

    @cached_property
    def frame(self) -> Frame:
        """Around the text of every window; an encoder–decoder's halves are framed by themselves."""
        return Frame() if self.task == "encoder-decoder" else frame_of(self.tokenizer, self.task)

    def source(self, windows: Windows, alone: bool = False) -> TokenSource:
        """Return the windows as a source; every process is given all and takes its share."""
        rank, world = (0, 1) if alone else find_place()[:2]
        special = {*getattr(self.tokenizer, "all_special_ids", ()), *self.frame.before}
        return TokenSource(
            [self._batch(ids) for ids in windows.ids.split(self.options.batch_size)],
            getattr(self.model, "config", None),
            self.task,
            self.options.own["targets"],
            self._find_mask_token(),
            (*special, *self.frame.after),
            self.options.seed,
            bos=self.frame.before[0] if self.frame.before and self.task == "causal" else "config",
            rank=rank,
            world=world,
            sharded=False,
        )

    def count_tokens(self) -> tuple[int | None, int | None]:
        """Return how many tokens the model embeds and the tokenizer knows, where they say."""
        size = len(self.tokenizer) if hasattr(self.tokenizer, "__len__") else None
        return vocabulary_of(self.model, self.task), size

    def _batch(self, ids: Tensor) -> Any:
        """Return windows (B, T) in the form the model takes them.

        An encoder–decoder reads the first half of a window and is measured on the second, before
        which stands the token its decoder starts with.
        """
        if self.task != "encoder-decoder":
            return ids
        half, frame = ids.shape[1] // 2, frame_of(self.tokenizer, self.task)
        start = getattr(getattr(self.model, "config", None), "decoder_start_token_id", None)
        begin = torch.full((len(ids), 1), int(start or 0))
        return {
            "input_ids": frame.around(ids[:, :half]),
            "decoder_input_ids": torch.cat([begin, ids[:, half:]], dim=1),
        }

    def _find_mask_token(self) -> int | None:
        if self.task != "masked":
            return None
        token = getattr(self.tokenizer, "mask_token_id", None)
        if token is None:
            raise LawscopeError(
                "--task masked hides tokens behind the mask token, and the tokenizer has none "
                "(mask_token_id); is it a causal model?"
            )
        return int(token)


def load_language_target(options: SimpleNamespace) -> LanguageTarget:
    """Load the model and the tokenizer that the options name."""
    _, world, local = find_place()
    # Each process on a machine has its own.
    device = f"cuda:{local}" if options.device == "cuda" and world > 1 else options.device
    where = None if device == "auto" else find_device(device)
    code = ":" in options.target and not exists(Path(options.target))
    if code or options.target.endswith(".py"):
        return _load_code(options, where)
    if options.checkpoint is not None:
        raise LawscopeError("--checkpoint is for .py targets; a Hugging Face folder has weights.")
    source = find_source(options.target, options.gguf, options.trust_remote_code)
    tokenizer = load_tokenizer(source)
    how = {"task": options.own["task"], "dtype": DTYPES[options.dtype], "device": where}
    model = load_language_model(source, **how)
    return LanguageTarget(
        Path(source.gguf or source.place).name, model, tokenizer, options.own["task"], options
    )


def _load_code(options: SimpleNamespace, where: torch.device | None) -> LanguageTarget:
    if where is None:
        raise LawscopeError("--device auto is for Hugging Face models; name a device.")
    if options.gguf is not None:
        raise LawscopeError("--gguf is for Hugging Face folders; a .py target has its own weights.")
    found, model = build_target(options.target, options.checkpoint)
    tokenizer = found.tokenizer if found.tokenizer is not None else found.given
    if tokenizer is None:
        raise LawscopeError(
            f"{options.target} gives no tokenizer; define 'tokenizer' in it: an object with "
            "encode(text), or a function that turns text into token ids."
        )
    if inspect.isfunction(tokenizer) and not inspect.signature(tokenizer).parameters:
        tokenizer = tokenizer()
    model = unwrap(model).to(device=where, dtype=DTYPES[options.dtype])
    return LanguageTarget(found.name, model, tokenizer, options.own["task"], options)


def _open(options: SimpleNamespace) -> tuple[LanguageTarget, Windows, list[str], Path | None]:
    """Load everything, choose the windows to measure, and say before the run what is too little."""
    _check_texts(options.text)
    if speaks():
        announce(f"loading {options.target}")
    loaded = load_language_target(options)
    NextTokenSettings.read("next_token", options.own)
    context = context_of(loaded.model)
    if options.window is not None and context is not None and options.window > context:
        raise LawscopeError(
            f"--window {options.window} is longer than the {context} tokens the model can read; "
            f"take at most {context}."
        )
    length = options.window or min(WINDOW, context or WINDOW)
    first = _cut_windows(loaded, length, length - len(loaded.frame))
    with explain_failures("The model"):
        session = Session(loaded.model, loaded.source(first, alone=True))
        width = session.blocks.all[0].shape[-1]
    most = None if options.tokens == "all" else options.tokens
    if options.tokens is None:
        most = round(PER_FEATURE * width / SHARES[loaded.task])
    windows = _cut_windows(loaded, length, most, asked=options.tokens is not None)
    measured = session.source.peek().tokens
    each = 0 if measured is None else len(measured.rows) // max(1, measured.shape[0])
    _check_length(windows, each, width, options)
    doubts, (rows, size) = [], loaded.count_tokens()
    if rows is not None and size is not None and size > rows:
        doubts.append(
            f"The tokenizer knows {size} tokens and the model embeds {rows}: none of the others is "
            "in this text, but is the tokenizer the model's own?"
        )
    return loaded, windows, doubts + _find_marks(options.text), _find_kept(options)


def _find_kept(options: SimpleNamespace) -> Path | None:
    """Return the file that keeps an interrupted scan; an old one is gone unless it is resumed."""
    if options.folder is None:
        return None
    path, world = Path(options.folder, UNFINISHED), find_place()[1]
    parts = sorted(options.folder.glob(f"{path.stem}*{path.suffix}"))
    saved_by = {int((re.findall(r"-\d+of(\d+)$", part.stem) or [1])[0]) for part in parts}
    if options.resume and saved_by - {world}:
        raise LawscopeError(
            f"{parts[0]} was saved by {max(saved_by)} process(es), not by {world}; go on with as "
            "many, or delete it to begin again."
        )
    if options.resume and not parts:
        _say(f"nothing to resume in {options.folder}; beginning again.")
    if speaks() and parts and not options.resume:
        why = "is of an interrupted scan, which --resume would continue"
        _say(f"{parts[0]} {why}; beginning again.")
        for part in parts:
            part.unlink(missing_ok=True)
    return path


def _give_up_keeping(law: str, options: SimpleNamespace) -> None:
    """Say that nothing is kept because of this law; refuse to resume what was kept without it."""
    if options.resume and any(options.folder.glob(f"{Path(UNFINISHED).stem}*")):
        raise LawscopeError(
            f"--resume cannot continue with {law}, which cannot be saved midway; leave it out with "
            "--laws."
        )
    _say(f"{law} cannot be saved midway: this scan could not be resumed after an interruption.")


def _say(sentence: str) -> None:
    if speaks():
        sys.stderr.write(f"lawscope: {sentence}\n")


def _cut_windows(
    loaded: LanguageTarget, length: int, most: int | None, asked: bool = False
) -> Windows:
    """Return whole windows that hold ``most`` tokens of text, or all there is."""
    step = length - len(loaded.frame)
    up_to = None if most is None else -(-most // max(step, 1)) * step
    ids = read_tokens_of(read_pieces(loaded.options.text), encoder_of(loaded.tokenizer), up_to)
    if asked and most is not None and len(ids) < most:
        raise LawscopeError(
            f"--tokens {most} asks for more than the text has: {len(ids)} tokens, "
            f"{most - len(ids)} are missing; give more text or a smaller number."
        )
    windows = pack(ids, length, loaded.frame)
    rows, size = loaded.count_tokens()
    highest, known = int(windows.ids.max()), rows if size is None else size
    # Embeddings are padded, but not to twice as many.
    if rows is not None and known is not None and (highest >= rows or 2 * known < rows):
        raise LawscopeError(
            f"The tokenizer and the model do not belong together: the model embeds {rows} tokens, "
            f"and the tokenizer knows {known} and gives ids up to {highest}; put the model's own "
            "tokenizer beside it."
        )
    return windows


def _check_length(windows: Windows, each: int, width: int, options: SimpleNamespace) -> None:
    """Refuse a text that is too short before anything long runs; say where a verdict needs more."""
    if not each:
        raise LawscopeError(
            f"A window of {windows.ids.shape[1]} tokens has no place where all of "
            f"{', '.join(options.own['targets'])} exist; take a longer --window."
        )
    count = len(windows.ids)
    have, step = windows.text_tokens + windows.left, windows.text_tokens // count
    needed, enough = (-(-least // each) * step for least in (width + 1, ENOUGH * width))
    if each * count <= width and isinstance(options.tokens, int):
        raise LawscopeError(
            f"--tokens {options.tokens} is too small: {each * count} of them would be measured, "
            f"for {width} features; ask for at least {needed}, and {enough} for a line that means "
            "something."
        )
    if each * count <= width:
        raise LawscopeError(
            f"The text gives {have} tokens, {each * count} of them to measure, for {width} "
            f"features: at least {needed - have} are missing, and {enough - have} for a line that "
            "means something; give more text."
        )
    if each * count < ENOUGH * width:
        _say(
            f"{each * count} tokens for {width} features are too few for a verdict; {enough} "
            "tokens of text would do."
        )


def _check_texts(paths: Sequence[Path]) -> None:
    """See that all files are there, which is known long before a model is loaded."""
    for path in paths:
        check_file(path, "check --text")
        if not path.stat().st_size:
            raise LawscopeError(f"{path} is empty; give a file with text.")


def read_pieces(paths: Sequence[Path]) -> Iterator[str]:
    """Yield the text of all files, one after the other, in pieces of about a megabyte.

    Pieces end at the end of a line where there is one, so that cutting hardly ever meets a token.
    """
    _check_texts(paths)
    for path in paths:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        rest, read = "", 0
        try:
            with path.open("rb") as file:
                while raw := file.read(PIECE_BYTES):
                    text = rest + decoder.decode(raw)
                    read += len(raw)
                    # After its last line, else its last word, else anywhere.
                    cut = text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
                    if cut:
                        yield text[:cut]
                    rest = text[cut:]
            if rest := rest + decoder.decode(b"", final=True):
                yield rest
        except UnicodeDecodeError as error:
            byte = f"0x{error.object[error.start]:02x}"
            raise LawscopeError(
                f"{path} is not UTF-8 text (byte {byte} between positions {read} and "
                f"{read + PIECE_BYTES}); convert it, for example with iconv -t utf-8."
            ) from error
        except OSError as error:
            raise LawscopeError(f"{path} cannot be read: {error.strerror or error}.") from error


def _find_marks(paths: Sequence[Path]) -> list[str]:
    """Return a warning where the text is not as it was written, by its first megabyte.

    On WikiText-2 with its marks SmolLM2-135M has r = −0.78, and −0.91 where "<unk>" is deleted:
    marks are predicted by the second block already, and the others only carry them along.
    """
    first = next(read_pieces(paths), "")
    marks = Counter(MARKS.findall(first))
    share = marks.total() / max(len(first.split()), 1)
    if share < MARKED:
        return []
    seen = ", ".join(f"'{mark}'" for mark, _ in marks.most_common(3))
    return [
        f"{share:.0%} of the words of {paths[0]} are marks of a preparation ({seen}): a model that "
        "was not trained with them predicts them in its first blocks, which bends the line; give "
        "the text as it was written."
    ]
