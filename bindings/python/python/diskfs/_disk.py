"""Open disks."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Union

from . import _diskfs
from ._path import DiskPath

_HostPath = Union[str, "os.PathLike[str]"]
_Passphrase = Union[str, bytes]


@dataclass(frozen=True)
class Volume:
    """A volume of a disk: a partition, a logical volume, an array, the inside of an encrypted one."""

    name: str
    """The name in diskfs: ``p1``, ``vg0/root``, ``disk``."""
    size_bytes: int
    kind: str | None
    """The kind of the content as blkid(8) names it, such as ``ext4``, or ``None``."""
    label: str
    uuid: str | None
    is_readable: bool
    """True if diskfs can open the content as a filesystem."""
    root: DiskPath
    """The root directory of its filesystem."""


def open(
    path: _HostPath,
    mode: str = "r",
    *,
    overlay: _HostPath | None = None,
    format: str | None = None,
    snapshot: str | None = None,
    passphrase: _Passphrase | Mapping[str, _Passphrase] | None = None,
    backing: Iterable[_HostPath] | None = (),
    add: Iterable[_HostPath] = (),
    force_share: bool = False,
) -> Disk:
    """Opens a disk image.

    ``mode`` is ``"r"`` for reading, ``"r+"`` for writing, or ``"dry-run"`` for writing into memory.
    ``overlay`` stores the changes in a qcow2 image. ``format`` is ``raw`` or ``qcow2``, and is
    probed otherwise. ``passphrase`` is for all encrypted volumes, or a mapping from volumes to
    theirs. ``backing`` lists directories whose files the image may refer to, besides files in its
    own directory; ``None`` refuses all. ``add`` lists further disks of the same machine.
    """
    if passphrase is None:
        passphrases = []
    elif isinstance(passphrase, Mapping):
        passphrases = [(volume, _bytes(it)) for volume, it in passphrase.items()]
    else:
        passphrases = [(None, _bytes(passphrase))]
    options = {
        "mode": mode,
        "overlay": overlay,
        "format": format,
        "snapshot": snapshot,
        "passphrases": passphrases,
        "backing": None if backing is None else list(backing),
        "add": list(add),
        "force_share": force_share,
    }
    return Disk(_diskfs.Disk(path, options), os.fspath(path))


def _bytes(passphrase: _Passphrase) -> bytes:
    return passphrase.encode() if isinstance(passphrase, str) else passphrase


class Disk:
    """An open disk. It is a context manager that closes the disk."""

    def __init__(self, disk: _diskfs.Disk, path: str) -> None:
        self._disk = disk
        self._image = path

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<diskfs.Disk {self._image!r}{' closed' if self.closed else ''}>"

    @property
    def path(self) -> str:
        """The path of the image."""
        return self._image

    @property
    def closed(self) -> bool:
        """True if the disk is closed."""
        return self._disk.closed()

    @property
    def writable(self) -> bool:
        """True if the disk was opened for writing."""
        return self._disk.writable()

    @property
    def root(self) -> DiskPath:
        """The root directory of the operating system, else of the only filesystem."""
        return DiskPath(self, None, "/")

    def volume(self, name: str) -> DiskPath:
        """Returns the root directory of a volume, by its name, UUID or label."""
        return DiskPath(self, name, "/")

    def volumes(self) -> list[Volume]:
        """Lists the volumes."""
        return [
            Volume(
                name,
                size_bytes,
                kind,
                label.decode(errors="surrogateescape"),
                uuid,
                is_readable,
                self.volume(name),
            )
            for name, size_bytes, kind, label, uuid, is_readable in self._disk.volumes()
        ]

    def info(self) -> dict[str, Any]:
        """Describes the image, its volumes and filesystems, as ``diskfs info --json`` does."""
        return self._disk.info()

    def inspect(self, *, initramfs: bool = False, sources: bool = False) -> dict[str, Any]:
        """Describes the operating systems, as ``diskfs inspect --json`` does.

        With ``initramfs``, the initramfs of each kernel is unpacked to list its drivers. With
        ``sources``, the document names the file and line of each fact.
        """
        return self._disk.inspect(initramfs, sources)

    def deploy(
        self,
        plan: str | Mapping[str, Any],
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, Any]:
        """Applies a plan to the operating system, as ``diskfs deploy --json`` does.

        The plan is a text in YAML or JSON, or a dictionary. A dry run returns the changes as a diff.
        ``progress`` is called with the number of bytes that are written and the total number; an
        exception that it raises cancels the deployment. Files of the disk are closed first.
        """
        text = plan if isinstance(plan, str) else json.dumps(plan)
        return self._disk.deploy(text, dry_run, progress)

    def sync(self) -> None:
        """Makes all changes so far durable."""
        self._disk.sync()

    def close(self) -> None:
        """Closes the disk and its files. All changes are durable then."""
        self._disk.close()
