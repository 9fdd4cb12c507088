"""The idx format of MNIST: a header of big-endian sizes, then the bytes."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError

_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, plain or gzipped.

    The header is the bytes (0, 0, type, number of axes) and the length of each axis in four
    big-endian bytes (Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits").

    Args:
        path: the file; whether it is gzipped is seen from its contents.

    Returns:
        The array in the shape that the header states.

    Raises:
        LawscopeError: when the file is absent, damaged, cut short or of another type.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name) / "labels-idx1-ubyte"
        >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([5, 0, 4]))
        >>> read_idx(file)
        array([5, 0, 4], dtype=uint8)
        >>> folder.cleanup()
    """
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE:
        raise LawscopeError(
            f"{path} is not an idx file of unsigned bytes (it begins with "
            f"{content[:4].hex(' ') or 'nothing'}): delete it and get the canonical file again"
        )
    header = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4))
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise LawscopeError(
            f"{path} has {len(content)} bytes where its header promises {expected}: "
            "delete it and get the canonical file again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def find_idx(folder: Path, stem: str) -> Path | None:
    """The file ``stem`` or ``stem.gz`` in ``folder``, or None.

    Args:
        folder: where to look.
        stem: canonical name without ``.gz``.

    Returns:
        The path of the file that exists.
    """
    found = (folder / name for name in (stem, f"{stem}.gz"))
    return next((path for path in found if path.is_file()), None)


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked when it is gzipped."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
    except (OSError, EOFError, zlib.error) as error:
        raise LawscopeError(
            f"{path} cannot be read ({error}): delete it and get the canonical file again"
        ) from error
