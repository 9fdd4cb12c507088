"""``--text``: files of UTF-8 text, read in pieces."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lawscope.errors import LawscopeError

PIECE_BYTES = 1 << 20
# What word tokenizers and web pages leave in corpora such as WikiText-2.
MARKS = re.compile(r"<unk>|&lt; ?unk ?&gt;|@[-,.]@|&(?:amp|apos|gt|lt|quot);")
MARKED = 0.01  # share of the words from which it is told


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


def marked(paths: Sequence[Path]) -> str | None:
    """A warning where the text is not as it was written, by its first megabyte.

    On WikiText-2 with its marks SmolLM2-135M has r = −0.78, and −0.91 where "<unk>" is deleted:
    marks are predicted by the second block already, and the others only carry them along.
    """
    first = next(pieces(paths), "")
    marks = Counter(MARKS.findall(first))
    share = marks.total() / max(len(first.split()), 1)
    if share < MARKED:
        return None
    seen = ", ".join(f"'{mark}'" for mark, _ in marks.most_common(3))
    return (
        f"{share:.0%} of the words of {paths[0]} are marks of a preparation ({seen}): a model that "
        "was not trained with them predicts them in its first blocks, which bends the line; give "
        "the text as it was written."
    )


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
