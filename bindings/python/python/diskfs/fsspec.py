"""A filesystem for fsspec, so that other packages read out of images.

    pandas.read_csv("diskfs:///srv/data.csv", storage_options={"fo": "debian.qcow2"})
    fsspec.open("diskfs://etc/fstab::/srv/images/debian.qcow2")
"""

from __future__ import annotations

import os
import stat as _stat
from datetime import datetime, timezone
from typing import Any

from fsspec import AbstractFileSystem

from . import DiskPath
from . import open as open_disk

_TYPES = {_stat.S_IFREG: "file", _stat.S_IFDIR: "directory", _stat.S_IFLNK: "link"}


class DiskfsFileSystem(AbstractFileSystem):
    """The files of a disk image.

    ``fo`` is the path of the image, ``volume`` selects a volume, and the other options are those of
    ``diskfs.open``. Changes are durable after :meth:`sync` and :meth:`close`.
    """

    protocol = "diskfs"
    root_marker = ""

    def __init__(
        self,
        fo: str | os.PathLike[str] = "",
        mode: str = "r",
        volume: str | None = None,
        overlay: str | None = None,
        format: str | None = None,
        snapshot: str | None = None,
        passphrase: Any = None,
        backing: Any = (),
        add: Any = (),
        force_share: bool = False,
        target_protocol: str | None = None,
        target_options: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not fo:
            raise ValueError("missing image: give the option `fo`, or a URL diskfs://FILE::IMAGE")
        if target_protocol not in (None, "file", "local") or target_options:
            raise ValueError("the image must be a local file")
        self.disk = open_disk(
            fo,
            mode,
            overlay=overlay,
            format=format,
            snapshot=snapshot,
            passphrase=passphrase,
            backing=backing,
            add=add,
            force_share=force_share,
        )
        self._root = self.disk.volume(volume) if volume else self.disk.root

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        # Paths are relative to the root of the image, as those of archives.
        stripped = super()._strip_protocol(path)
        return stripped.lstrip("/") if isinstance(stripped, str) else stripped

    def _at(self, path: str) -> DiskPath:
        return self._root / self._strip_protocol(path)

    def _info(self, path: DiskPath) -> dict[str, Any]:
        name = str(path).lstrip("/")
        of_link = path.lstat()
        kind = _TYPES.get(_stat.S_IFMT(of_link.st_mode), "other")
        details: dict[str, Any] = {"name": name, "islink": kind == "link"}
        if kind == "link":
            details["destination"] = str(path.readlink())
            if path.exists():
                of_link = path.stat()
                kind = _TYPES.get(_stat.S_IFMT(of_link.st_mode), "other")
        details |= {
            "type": kind,
            "size": of_link.st_size,
            "mode": of_link.st_mode,
            "uid": of_link.st_uid,
            "gid": of_link.st_gid,
            "ino": of_link.st_ino,
            "nlink": of_link.st_nlink,
            "mtime": of_link.st_mtime,
            "created": of_link.st_ctime,
        }
        return details

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return self._info(self._at(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        at = self._at(path)
        is_directory = _stat.S_ISDIR(at.stat().st_mode)
        listed = list(at.iterdir()) if is_directory else [at]
        if detail:
            return [self._info(it) for it in listed]
        return [str(it).lstrip("/") for it in listed]

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self._at(path).exists()

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self._at(path).stat().st_mtime, tz=timezone.utc)

    def created(self, path: str) -> datetime:
        return datetime.fromtimestamp(self._at(path).stat().st_ctime, tz=timezone.utc)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **kwargs: Any) -> Any:
        return self._at(path).open(mode)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        if start is None and end is None:
            return self._at(path).read_bytes()
        file = self._at(path)._open("r")
        size = file.size()
        first, last, _ = slice(start, end).indices(size)
        return file.read_at(first, max(last - first, 0))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        with self._at(path).open("xb" if mode == "create" else "wb") as file:
            file.write(value)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self._at(path).mkdir(parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._at(path).mkdir(parents=True, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self._at(path).rmdir()

    def _rm(self, path: str) -> None:
        self._at(path).unlink()

    def rm_file(self, path: str) -> None:
        self._rm(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for one in [path] if isinstance(path, str) else path:
            at = self._at(one)
            if recursive and maxdepth is None:
                at.rmtree()
            elif at.is_dir() and not at.is_symlink():
                at.rmdir()
            else:
                at.unlink()

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        source, target = self._at(path1), self._at(path2)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            return
        with source.open("rb") as reader, target.open("wb") as writer:
            while block := reader.read(1 << 20):
                writer.write(block)

    def mv(self, path1: str, path2: str, *args: Any, **kwargs: Any) -> None:
        self._at(path1).rename(str(self._at(path2)))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        self._at(path).open("wb" if truncate else "ab").close()

    def sync(self) -> None:
        """Makes all changes so far durable."""
        self.disk.sync()

    def close(self) -> None:
        """Closes the disk."""
        self.disk.close()
        self.clear_instance_cache()
