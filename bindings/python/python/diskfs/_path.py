"""Paths within an image, in the manner of ``pathlib``."""

from __future__ import annotations

import errno
import os
import stat as _stat
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Iterator, Union

from . import _diskfs, _errors
from ._file import open_file

if TYPE_CHECKING:
    from ._disk import Disk

_Name = Union[str, PurePosixPath, "DiskPath"]


class DiskPath:
    """A path within an image. It is always absolute, and no symlink leads out of the image.

    Methods have the names, arguments and exceptions of ``pathlib.Path``. Names that are not valid
    UTF-8 are decoded with ``surrogateescape``.
    """

    __slots__ = ("_disk", "_path", "_volume")

    def __init__(self, disk: Disk, volume: str | None, path: str | PurePosixPath) -> None:
        self._disk = disk
        self._volume = volume
        # Two slashes at the beginning have a meaning of their own in POSIX.
        self._path = PurePosixPath("/" + os.fspath(path).lstrip("/"))

    # The path alone.

    def __str__(self) -> str:
        return str(self._path)

    def __repr__(self) -> str:
        volume = f", {self._volume!r}" if self._volume else ""
        return f"<diskfs.DiskPath {str(self)!r} of {self._disk.path!r}{volume}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiskPath):
            return NotImplemented
        return self._key() == other._key()

    def __lt__(self, other: DiskPath) -> bool:
        if not isinstance(other, DiskPath):
            return NotImplemented
        return self._path < other._path

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, str | None, PurePosixPath]:
        return id(self._disk), self._volume, self._path

    def __truediv__(self, name: _Name) -> DiskPath:
        return self.joinpath(name)

    @property
    def disk(self) -> Disk:
        """The disk of the path."""
        return self._disk

    @property
    def parts(self) -> tuple[str, ...]:
        return self._path.parts

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def stem(self) -> str:
        return self._path.stem

    @property
    def suffix(self) -> str:
        return self._path.suffix

    @property
    def suffixes(self) -> list[str]:
        return self._path.suffixes

    @property
    def parent(self) -> DiskPath:
        return self._at(self._path.parent)

    @property
    def parents(self) -> list[DiskPath]:
        return [self._at(path) for path in self._path.parents]

    def as_posix(self) -> str:
        return str(self._path)

    def is_absolute(self) -> bool:
        return True

    def joinpath(self, *names: _Name) -> DiskPath:
        return self._at(self._path.joinpath(*(str(name) for name in names)))

    def match(self, pattern: str) -> bool:
        return self._path.match(pattern)

    def relative_to(self, other: _Name) -> PurePosixPath:
        return self._path.relative_to(str(other))

    def with_name(self, name: str) -> DiskPath:
        return self._at(self._path.with_name(name))

    def with_suffix(self, suffix: str) -> DiskPath:
        return self._at(self._path.with_suffix(suffix))

    # Reading.

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._call("stat", follow_symlinks)

    def lstat(self) -> os.stat_result:
        return self.stat(follow_symlinks=False)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        try:
            self.stat(follow_symlinks=follow_symlinks)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        return True

    def is_dir(self) -> bool:
        return self._is(_stat.S_ISDIR)

    def is_file(self) -> bool:
        return self._is(_stat.S_ISREG)

    def is_symlink(self) -> bool:
        return self._is(_stat.S_ISLNK, follow_symlinks=False)

    def iterdir(self) -> Iterator[DiskPath]:
        """Yields the entries of a directory, sorted by name."""
        for name, _ in self._call("list"):
            yield self / os.fsdecode(name)

    def walk(self) -> Iterator[tuple[DiskPath, list[str], list[str]]]:
        """Yields each directory with the names of its directories and of its other files.

        Symlinks are not followed. Names that are removed from the first list are not walked.
        """
        directories, files = [], []
        for name, bits in self._call("list"):
            (directories if _stat.S_ISDIR(bits) else files).append(os.fsdecode(name))
        yield self, directories, files
        for name in directories:
            yield from (self / name).walk()

    def glob(self, pattern: str) -> Iterator[DiskPath]:
        """Yields the paths below that match a pattern of the shell, sorted."""
        if pattern.startswith("/") or not pattern:
            raise ValueError(f"unacceptable pattern: {pattern!r}")
        # The names of this path are not patterns.
        own = "".join(f"[{it}]" if it in "*?[" else it for it in str(self._path).rstrip("/"))
        own = own.replace("\\", "\\\\")
        found = self._disk._disk.glob(self._volume, os.fsencode(f"{own}/{pattern}"))
        for path in found:
            yield self._at(os.fsdecode(path))

    def readlink(self) -> PurePosixPath:
        return PurePosixPath(os.fsdecode(self._call("read_link")))

    def xattrs(self) -> dict[str, bytes]:
        """Returns the extended attributes by their full names. Symlinks are not followed."""
        return {os.fsdecode(name): value for name, value in self._call("xattrs")}

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        return open_file(self, mode, buffering, encoding, errors, newline)

    def read_bytes(self) -> bytes:
        file = self._open("r")
        return file.read_at(0, file.size())

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        with self.open("r", encoding=encoding or "utf-8", errors=errors) as file:
            return file.read()

    # Changes.

    def write_bytes(self, data: Any) -> int:
        return self._open("w").write_at(0, bytes(memoryview(data)))

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        if not isinstance(data, str):
            raise TypeError(f"data must be str, not {type(data).__name__}")
        arguments = {"encoding": encoding or "utf-8", "errors": errors, "newline": newline}
        with self.open("w", **arguments) as file:  # type: ignore[arg-type]
            return file.write(data)

    def touch(self, exist_ok: bool = True) -> None:
        self._open("a" if exist_ok else "x")

    def mkdir(self, mode: int = 0o755, parents: bool = False, exist_ok: bool = False) -> None:
        try:
            if parents:
                self.parent._call("mkdir", True)
            self._call("mkdir", False)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise
        else:
            if mode != 0o755:
                self.chmod(mode)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            if _stat.S_ISDIR(self.lstat().st_mode):
                raise self._failed("is_a_directory", errno.EISDIR)
            self._call("remove", False)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self) -> None:
        if not _stat.S_ISDIR(self.lstat().st_mode):
            raise self._failed("not_a_directory", errno.ENOTDIR)
        self._call("remove", False)

    def rmtree(self) -> None:
        """Removes a file, or a directory with everything below it."""
        self._call("remove", True)

    def rename(self, target: _Name) -> DiskPath:
        """Renames a file or a directory within its filesystem. A file at ``target`` is replaced."""
        target = self.parent / target
        self._call("rename", target._bytes())
        return target

    replace = rename

    def symlink_to(self, target: str | PurePosixPath | DiskPath) -> None:
        disk = self._disk._disk
        disk.symlink(self._volume, os.fsencode(str(target)), self._bytes())

    def hardlink_to(self, target: _Name) -> None:
        original = (self.parent / target)._bytes()
        self._disk._disk.hard_link(self._volume, original, self._bytes())

    def chmod(self, mode: int) -> None:
        self._call("chmod", mode & 0o7777)

    def chown(self, uid: int | None = None, gid: int | None = None) -> None:
        """Sets the owner and the group by number; ``None`` keeps the present one."""
        self._call("chown", uid, gid)

    # Helpers.

    def _at(self, path: str | PurePosixPath) -> DiskPath:
        return DiskPath(self._disk, self._volume, path)

    def _bytes(self) -> bytes:
        return os.fsencode(str(self._path))

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._disk._disk, name)(self._volume, self._bytes(), *arguments)

    def _open(self, mode: str) -> _diskfs.File:
        return self._disk._disk.open_file(self._volume, self._bytes(), mode)

    def _is(self, is_type: Any, *, follow_symlinks: bool = True) -> bool:
        try:
            return is_type(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _failed(self, kind: str, number: int) -> OSError:
        reason = os.strerror(number).lower()
        message = f"{self._disk.path}:{self}: {reason}"
        return _errors.make(kind, number, message, self._disk.path, self._bytes())
