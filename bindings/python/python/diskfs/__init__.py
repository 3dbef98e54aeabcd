"""Opens disk images of virtual machines: reads and changes files, describes guests, applies plans.

    with diskfs.open("debian.qcow2") as disk:
        print((disk.root / "etc" / "os-release").read_text())

All objects can be used by several threads at once.
"""

from ._diskfs import __version__
from ._disk import Disk, Volume, open
from ._errors import DiskfsError
from ._path import DiskPath

__all__ = ["Disk", "DiskPath", "DiskfsError", "Volume", "__version__", "open"]
