"""Open files, with the classes of ``io``."""

from __future__ import annotations

import io
import os
from typing import IO, TYPE_CHECKING, Any

from . import _diskfs

if TYPE_CHECKING:
    from ._path import DiskPath

# The largest read into a buffer of the caller, which needs a copy.
_STEP_BYTES = 8 << 20

_MODES = {"r": "r", "r+": "r+", "w": "w", "w+": "w", "a": "a", "a+": "a", "x": "x", "x+": "x"}


class RawFile(io.RawIOBase):
    """An unbuffered file."""

    def __init__(self, file: _diskfs.File, name: str, mode: str) -> None:
        self._file = file
        self.name = name
        self.mode = mode
        self._position = 0
        self._appends = mode.startswith("a")
        if self._appends:
            self._position = file.size()

    def readable(self) -> bool:
        return self.mode.startswith("r") or "+" in self.mode

    def writable(self) -> bool:
        return not self.mode.startswith("r") or "+" in self.mode

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._check(self.readable(), "readable")
        with memoryview(buffer).cast("B") as view:
            data = self._file.read_at(self._position, min(len(view), _STEP_BYTES))
            view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        self._check(self.readable(), "readable")
        data = self._file.read_at(self._position, max(self._file.size() - self._position, 0))
        self._position += len(data)
        return data

    def write(self, data: Any) -> int:
        self._check(self.writable(), "writable")
        if self._appends:
            self._position = self._file.size()
        written = self._file.write_at(self._position, bytes(data))
        self._position += written
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        if base is None:
            if whence != os.SEEK_END:
                raise ValueError(f"invalid whence {whence}")
            base = self._file.size()
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        self._check()
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self._check(self.writable(), "writable")
        size = self._position if size is None else size
        self._file.set_len(size)
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            del self._file

    def sync(self) -> None:
        """Makes the contents durable."""
        self._check()
        self._file.sync()

    def _check(self, is_possible: bool = True, what: str = "") -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not is_possible:
            raise io.UnsupportedOperation(f"file is not {what}")


def open_file(
    path: DiskPath,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> IO[Any]:
    """Opens a file as the built-in function ``open`` does."""
    is_binary = "b" in mode
    plain = mode.replace("b", "").replace("t", "")
    if plain not in _MODES or ("b" in mode and "t" in mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if is_binary and not (encoding is errors is newline is None):
        raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
    if buffering == 0 and not is_binary:
        raise ValueError("can't have unbuffered text I/O")
    raw = RawFile(path._open(_MODES[plain]), str(path), plain)
    if buffering == 0:
        return raw  # type: ignore[return-value]
    # Each read goes through several layers: larger ones pay off more than with a local file.
    size = buffering if buffering > 1 else 128 << 10
    if "+" in plain:
        buffered: Any = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    if is_binary:
        return buffered
    text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode  # type: ignore[misc]
    return text
