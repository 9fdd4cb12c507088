"""What every result can do: become a document and come back, save, print and show itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

from lawscope.checks import checked
from lawscope.documents import decode_fields, encode, parse_json
from lawscope.errors import LawscopeError
from lawscope.files import write_whole
from lawscope.lazy import Axes
from lawscope.section import Section

LONG = 2**20  # letters of JSON from which long arrays are stored in a file beside it
OURS = {"written by": "lawscope"}  # in that file
DATA_ELEMENT = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
_SCHEMAS: dict[str, type[Result]] = {}
# Modules that define results which no law registers.
_HOMES = (
    "lawscope.laws.conservation.charges",
    "lawscope.laws.conservation.completeness",
    "lawscope.laws.conservation.ledger",
    "lawscope.laws.conservation.noise",
    "lawscope.laws.conservation.found",
    "lawscope.laws.conservation.teleport",
    "lawscope.laws.report",
    "lawscope.laws.symmetry.mirror",
    "lawscope.remedies.compress",
    "lawscope.remedies.depth",
    "lawscope.remedies.oversampling",
    "lawscope.remedies.rescue",
    "lawscope.remedies.transfer_balance",
    "lawscope.studies.result",
    "lawscope.theory.elastic_sde.fit",
    "lawscope.theory.elastic_sde.phases",
    "lawscope.theory.elastic_sde.trajectory",
    "lawscope.theory.layer_peeled.local_search",
    "lawscope.theory.layer_peeled.outlook",
    "lawscope.theory.layer_peeled.peeled",
    "lawscope.theory.layer_peeled.sweep",
)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Numbers with what they mean; the base of everything that lawscope returns.

    A subclass is a frozen dataclass with a ``schema`` ("lawscope.<name>/<version>"), a one-line
    ``__str__`` and a :meth:`section`. Documents come from its fields, and the properties named in
    ``derived``; a field with ``metadata={"saved": False}`` stays out of them.
    """

    schema: ClassVar[str] = ""
    derived: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.schema:
            _SCHEMAS[cls.schema] = cls

    def section(self) -> Section:
        """Return what people should see, as data."""
        return Section(title=type(self).__name__, headline=str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, under the name of its schema."""
        document: dict[str, Any] = encode(self)
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the result that :meth:`to_dict` wrote.

        Raises:
            LawscopeError: the document is of another schema.
        """
        if document.get("schema") != cls.schema:
            raise LawscopeError(
                f"The document has the schema {document.get('schema')!r}, not {cls.schema!r}."
            )
        found: Self = decode_fields(document, cls)
        return found

    @checked
    def save(self, path: str | Path) -> Path:
        """Write the result: ``.html`` as a page with the numbers inside, ``.md`` as Markdown.

        Anything else is JSON; Markdown is the one form that cannot be loaded again. Long arrays go
        into a ``.safetensors`` file beside it where the JSON would exceed 1 MB.

        Args:
            path: the file, as in "run.lawscope.json" or "report.html"; missing folders are made.

        Returns:
            The path that was written.

        Raises:
            LawscopeError: the place cannot be written.
        """
        path = Path(path)
        if not path.name:
            raise LawscopeError(f"{path} is a folder; name a file in it, as in report.html.")
        text, arrays = _as_json(self)
        if path.suffix.lower() in (".html", ".htm"):
            from lawscope.report.page import render_page

            text = render_page(self, text)
        if path.suffix.lower() == ".md":
            from lawscope.report.markdown import render_markdown

            text, arrays = render_markdown(self), {}
        beside = _beside(path)
        if arrays:
            from safetensors.numpy import save

            write_whole(save(arrays, OURS), beside)
        write_whole(text, path)
        if not arrays and _is_ours(beside):
            beside.unlink()  # of a longer result that was saved here before
        return path

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the first chart of the section.

        Args:
            ax: where to draw; a new figure without it.

        Returns:
            The axes drawn on.
        """
        return self.plot_chart(0, ax)

    def plot_chart(self, chart: int | str, ax: Axes | None = None) -> Axes:
        """Draw a chart of the section.

        Args:
            chart: its place in the section, counted from 0, or its title.
            ax: where to draw; a new figure without it.

        Returns:
            The axes drawn on.

        Raises:
            LawscopeError: there is no such chart.
        """
        from lawscope.report.charts.figures import draw

        charts = self.section().charts
        if not charts:
            raise LawscopeError(f"A {type(self).__name__} has no chart to draw.")
        titles = [each.title for each in charts]
        place = titles.index(chart) if chart in titles else chart
        if not isinstance(place, int) or not 0 <= place < len(charts):
            raise LawscopeError(
                f"There is no chart {chart!r}; there are {', '.join(map(repr, titles))}."
            )
        return draw(charts[place], ax)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from lawscope.report.page import render_notebook

        return render_notebook(self)

    def __rich__(self) -> Any:
        from lawscope.report.terminal import render_terminal

        return render_terminal(self)

    def __eq__(self, other: object) -> bool:
        # By what would be saved.
        if not isinstance(other, Result) or self.schema != other.schema:
            return NotImplemented
        return self is other or self.to_dict() == other.to_dict()

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


@checked
def load(path: str | Path) -> Any:
    """Return a result saved by ``.save()``, from its JSON or its page. Nothing is executed.

    Args:
        path: of the file.

    Raises:
        LawscopeError: not a file of ours, or of a later version.

    Example:
        >>> import tempfile
        >>> from lawscope.theory.layer_peeled.peel import peel
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = peel([100, 100, 10]).save(f"{folder}/p.lawscope.json")
        ...     load(saved) == peel([100, 100, 10])
        True
    """
    try:
        path = Path(path)
        text = path.read_text(encoding="utf-8")
    except (TypeError, OSError, ValueError) as error:
        raise LawscopeError(f"{path} cannot be read ({error}); give a saved result.") from error
    if path.suffix.lower() in (".html", ".htm"):
        found = DATA_ELEMENT.search(text)
        if found is None:
            raise LawscopeError(f"{path} is not a page that lawscope saved.")
        text = found.group(1)
    try:
        document = parse_json(text)
    except ValueError as error:
        raise LawscopeError(f"{path} is not JSON ({error}); give a saved result.") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str):
        if isinstance(document, dict) and "studies" in document:
            raise LawscopeError(
                f"{path} holds several studies; read one with lawscope.studies.load(name, folder)."
            )
        raise LawscopeError(f"{path} is not a saved result: it names no schema.")
    try:
        return decode_fields(document, find_schema(schema), _arrays_beside(path))
    except LawscopeError:
        raise
    except Exception as error:  # a document that somebody changed can fail anywhere
        raise LawscopeError(f"{path} does not fit the schema {schema}: {error!r}.") from error


def find_schema(schema: str) -> type[Result]:
    """Return the class of results with this schema."""
    if schema not in _SCHEMAS:
        from lawscope.laws.registry import all_laws

        all_laws()
        for home in _HOMES:
            import_module(home)
    if schema not in _SCHEMAS:
        raise LawscopeError(
            f"The schema {schema!r} is not known here (known: {', '.join(sorted(_SCHEMAS))}); "
            "install the version of lawscope, or the package of laws, that saved it."
        )
    return _SCHEMAS[schema]


def _as_json(result: Result) -> tuple[str, dict[str, Any]]:
    """Return the JSON, and the arrays to store beside it where it would be long."""
    arrays: dict[str, Any] = {}
    text = json.dumps(encode(result), allow_nan=False, ensure_ascii=False)
    if len(text) > LONG:
        text = json.dumps(encode(result, arrays), allow_nan=False, ensure_ascii=False)
    # A name with bytes that are not text is written as JSON does it in ASCII: \udcff.
    return text.encode("utf-8", "backslashreplace").decode(), arrays


def _beside(path: Path) -> Path:
    return path.parent / f"{path.name}.safetensors"  # also where the path is a folder


def _is_ours(place: Path) -> bool:
    from safetensors import safe_open

    try:
        with safe_open(place, "np") as file:
            return bool(file.metadata() == OURS)
    except Exception:  # there is none, or none that can be read
        return False


def _arrays_beside(path: Path) -> dict[str, Any]:
    place = _beside(path)
    if not place.exists():
        return {}
    from safetensors.numpy import load_file

    try:
        return dict(load_file(place))
    except Exception as error:  # safetensors raises its own class of errors
        raise LawscopeError(f"{place} is damaged ({error}); save the result again.") from error
