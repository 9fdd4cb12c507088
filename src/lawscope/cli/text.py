"""``--text``: files of UTF-8 text, read in pieces."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path

from lawscope.errors import LawscopeError

PIECE_BYTES = 1 << 20


def pieces(paths: Sequence[Path]) -> Iterator[str]:
    """The text of all files, one after the other, in pieces of about a megabyte.

    Pieces end at the end of a line where there is one, so that cutting hardly ever meets a token.

    Raises:
        LawscopeError: a file that is missing, empty or no UTF-8 text.
    """
    check_files(paths)
    for path in paths:
        yield from _of_file(path)


def check_files(paths: Sequence[Path]) -> None:
    """See that all files are there, which is known long before a model is loaded.

    Raises:
        LawscopeError: a file that is missing or empty.
    """
    for path in paths:
        if not path.is_file():
            raise LawscopeError(f"There is no text file {path}; check --text.")
        if not path.stat().st_size:
            raise LawscopeError(f"{path} is empty; give a file with text.")


def _of_file(path: Path) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    rest, read = "", 0
    try:
        with path.open("rb") as file:
            while raw := file.read(PIECE_BYTES):
                text = rest + decoder.decode(raw)
                read += len(raw)
                cut = _cut(text)
                if cut:
                    yield text[:cut]
                rest = text[cut:]
        rest += decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        byte = f"0x{error.object[error.start]:02x}"
        raise LawscopeError(
            f"{path} is not UTF-8 text (byte {byte} between positions {read} and "
            f"{read + PIECE_BYTES}); convert it, for example with iconv -t utf-8."
        ) from error
    except OSError as error:
        raise LawscopeError(f"{path} cannot be read: {error.strerror or error}.") from error
    if rest:
        yield rest


def _cut(text: str) -> int:
    """Where a piece may end: after its last line, else its last word, else anywhere."""
    return text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
