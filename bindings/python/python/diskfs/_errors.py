"""The exceptions of the package."""

from __future__ import annotations

import os


class DiskfsError(OSError):
    """A failure of diskfs.

    ``kind`` is a small and stable set to branch on: ``io``, ``corrupt``, ``unsupported``,
    ``not_found``, ``exists``, ``not_a_directory``, ``is_a_directory``, ``read_only``, ``no_space``,
    ``locked``, ``denied``, ``ambiguous``, ``invalid``, ``cancelled``, ``other``. ``errno`` is the
    number that describes the failure best. ``filename`` is the path in the guest, or the image.
    """

    kind: str = "other"

    def __str__(self) -> str:
        return str(self.strerror)


class _NotFound(DiskfsError, FileNotFoundError):
    pass


class _Exists(DiskfsError, FileExistsError):
    pass


class _NotADirectory(DiskfsError, NotADirectoryError):
    pass


class _IsADirectory(DiskfsError, IsADirectoryError):
    pass


class _Denied(DiskfsError, PermissionError):
    pass


_CLASSES = {
    "not_found": _NotFound,
    "exists": _Exists,
    "not_a_directory": _NotADirectory,
    "is_a_directory": _IsADirectory,
    "denied": _Denied,
}

for _class in _CLASSES.values():
    # They are documented by their two base classes.
    _class.__module__ = "diskfs"
DiskfsError.__module__ = "diskfs"


def make(
    kind: str, errno: int, message: str, file: str | None, guest_path: bytes | None
) -> DiskfsError:
    """Returns the exception for an error of the compiled module."""
    error = _CLASSES.get(kind, DiskfsError)(errno, message)
    error.kind = kind
    error.filename = os.fsdecode(guest_path) if guest_path is not None else file
    return error
