"""The transformers library: there or a sentence, and quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lawscope.errors import LawscopeError


def transformers_for(what: str) -> Any:
    """The library, imported when ``what`` needs it.

    Raises:
        LawscopeError: it is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise LawscopeError(f'{what} needs transformers: pip install "lawscope[llm]"') from error
    return transformers


@contextmanager
def quietly() -> Iterator[None]:
    """No bar for every load and no notes of the library; what matters is checked by us."""
    logging = transformers_for("this").logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
