"""Options of ``lawscope scan`` that are about ``--text``; nothing here imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lawscope.errors import LawscopeError

PANEL = "Language models (with --text)"


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=PANEL, show_default=False, **more)


Text = Annotated[
    list[Path] | None,
    _option("UTF-8 text to measure a language model on; several files are joined.", "--text"),
]
Tokens = Annotated[
    str | None,
    _option("Tokens of text to measure, or 'all'; by default 100 per feature, if there are."),
]
Window = Annotated[
    int | None, _option("Tokens of a window; by default 512, or the model's context.", min=2)
]
Dtype = Annotated[str | None, _option("Of the weights: float32 (default), bfloat16, float16.")]
Gguf = Annotated[Path | None, _option("A GGUF file, here or inside TARGET.")]
Targets = Annotated[
    str | None,
    _option("With commas: next (default), next-next, current, previous. The first is judged."),
]
Task = Annotated[str | None, _option("causal (default), masked, encoder-decoder.")]
Precision = Annotated[
    str | None, _option("float64 (default), or fast: products in float32, sums in float64.")
]
Normalization = Annotated[
    str | None,
    _option("Of every block: final-norm (the model's own, default), none, layer-norm, rms-norm."),
]
Folds = Annotated[
    int | None, _option("Of windows, for the interval and cross-validation; 5.", min=1)
]
Every = Annotated[int | None, _option("Measure every so many-th block; 1.", min=1)]
Resume = Annotated[bool, _option("Go on with an interrupted scan of the same --out.", "--resume")]
TrustRemoteCode = Annotated[
    bool, _option("Run code that comes with the model.", "--trust-remote-code")
]


def about_text(options: dict[str, Any]) -> None:
    """Refuse options that need ``--text`` where there is none.

    Raises:
        LawscopeError: one was given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        raise LawscopeError(f"{given[0]} is about a language model; add --text FILE.")


def about_data(options: dict[str, Any]) -> None:
    """Refuse options of labelled data beside ``--text``.

    Raises:
        LawscopeError: one was given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        raise LawscopeError(f"{given[0]} is about labelled data and has no meaning with --text.")


def several_files(arguments: list[str]) -> list[str]:
    """``scan TARGET --text a b`` as ``scan TARGET --text a --text b``, as shells spread ``*.txt``.

    Example:
        >>> several_files(["scan", "gpt2", "--text", "a", "b", "--json"])
        ['scan', 'gpt2', '--text', 'a', '--text', 'b', '--json']
    """
    if arguments[:1] != ["scan"] or arguments[1:2] == [] or arguments[1].startswith("-"):
        return arguments
    spread: list[str] = []
    texts = False
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if argument.startswith("-"):
            texts = argument == "--text"
        elif texts and before != "--text":
            spread.append("--text")
        spread.append(argument)
    return spread
