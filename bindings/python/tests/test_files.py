"""Paths and files."""

import errno
import gc
import io
import stat
import threading
from pathlib import PurePosixPath

import pytest

import diskfs


@pytest.fixture
def disk(image):
    with diskfs.open(image("ext4-default"), "r+") as disk:
        yield disk


def test_paths_are_those_of_pathlib(disk):
    path = disk.root / "etc" / "conf.d" / "a.tar.gz"
    assert str(path) == path.as_posix() == "/etc/conf.d/a.tar.gz"
    assert path.parts == ("/", "etc", "conf.d", "a.tar.gz")
    assert (path.name, path.stem, path.suffix) == ("a.tar.gz", "a.tar", ".gz")
    assert path.suffixes == [".tar", ".gz"]
    assert path.parent == disk.root / "etc/conf.d"
    assert path.parents[-1] == disk.root
    assert path.with_suffix(".xz").name == "a.tar.xz"
    assert path.with_name("b") == disk.root / "etc" / "conf.d/b"
    assert path.relative_to("/etc") == PurePosixPath("conf.d/a.tar.gz")
    assert path.match("*.gz") and path.is_absolute()
    assert disk.root / "/abs" == disk.root.joinpath("x", "/abs")
    assert len({path, disk.root / "etc/conf.d/a.tar.gz"}) == 1
    assert path != disk.volume("disk") / "etc/conf.d/a.tar.gz"
    assert "a.tar.gz" in repr(path)


def test_changes_are_there_when_the_image_is_opened_again(image):
    path = image("ext4-default")
    with diskfs.open(path, "r+") as disk:
        assert disk.writable and not disk.closed
        new = disk.root / "new"
        (new / "a" / "b").mkdir(parents=True)
        new.mkdir(exist_ok=True)
        assert (new / "a" / "text").write_text("über\n") == 5
        assert (new / "bytes").write_bytes(bytearray(b"\0\xff" * 100)) == 200
        (new / "link").symlink_to("a/text")
        (new / "hard").hardlink_to("bytes")
        (new / "hard").chmod(0o600)
        (new / "hard").chown(1000, 1001)
        (new / "a" / "b").rmdir()
        moved = (new / "bytes").rename("moved")
        assert moved == new / "moved"
        (new / "empty").touch()
        (new / "tree" / "below").mkdir(parents=True)
        (new / "tree" / "below" / "file").touch()
        (new / "tree").rmtree()
    assert disk.closed
    with diskfs.open(path) as disk:
        new = disk.root / "new"
        assert [it.name for it in new.iterdir()] == ["a", "empty", "hard", "link", "moved"]
        assert (new / "link").read_text() == "über\n"
        assert (new / "link").readlink() == PurePosixPath("a/text")
        assert (new / "link").is_symlink() and (new / "link").is_file()
        assert stat.S_ISLNK((new / "link").lstat().st_mode)
        found = (new / "moved").stat()
        assert (found.st_size, found.st_nlink) == (200, 2)
        assert (found.st_uid, found.st_gid, found.st_mode) == (1000, 1001, 0o100600)
        assert found.st_mtime == pytest.approx(found.st_mtime_ns / 1e9)
        assert [str(it) for it in new.glob("*e*")] == ["/new/empty", "/new/moved"]
        walked = [(str(at), dirs, files) for at, dirs, files in new.walk()]
        assert walked[0] == ("/new", ["a"], ["empty", "hard", "link", "moved"])
        assert walked[1] == ("/new/a", [], ["text"])


def test_files_are_those_of_io(disk):
    path = disk.root / "file"
    with path.open("w", encoding="utf-8") as file:
        assert isinstance(file, io.TextIOWrapper)
        file.write("one\ntwo\n")
        print("three", file=file)
    with path.open() as file:
        assert list(file) == ["one\n", "two\n", "three\n"]
    with path.open("rb") as file:
        assert file.seek(-6, io.SEEK_END) == 8
        assert file.read() == b"three\n"
        assert file.read() == b""
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"TWO")
        file.seek(0)
        assert file.readline() == b"one\n"
        assert file.readline() == b"TWO\n"
        assert file.truncate(5) == 5
    with path.open("ab") as file:
        file.write(b"end")
    assert path.read_bytes() == b"one\nTend"
    with path.open("rb", buffering=0) as raw:
        buffer = bytearray(20)
        assert raw.readinto(buffer) == 8 and buffer.startswith(b"one\nTend\0")
    with pytest.raises(ValueError):
        raw.read()
    for mode in ["q", "rw", "rbt", ""]:
        with pytest.raises(ValueError):
            path.open(mode)


def test_large_files_are_whole(disk):
    data = bytes(range(256)) * 4096 * 9
    path = disk.root / "large"
    path.write_bytes(data)
    assert path.read_bytes() == data
    with path.open("rb") as file:
        file.seek(len(data) - 10)
        assert file.read(100) == data[-10:]
    disk.sync()


def test_failures_are_the_exceptions_of_python(disk):
    root = disk.root
    with pytest.raises(FileNotFoundError) as missing:
        (root / "missing").read_text()
    error = missing.value
    assert isinstance(error, diskfs.DiskfsError)
    assert (error.kind, error.errno, error.filename) == ("not_found", errno.ENOENT, "/missing")
    assert str(error) == f"{disk.path}:/missing: no such file"
    (root / "file").touch()
    (root / "dir" / "below").mkdir(parents=True)
    for action, exception in [
        (lambda: (root / "file" / "x").read_bytes(), NotADirectoryError),
        (lambda: (root / "dir").read_bytes(), IsADirectoryError),
        (lambda: (root / "dir").mkdir(), FileExistsError),
        (lambda: (root / "file").touch(exist_ok=False), FileExistsError),
        (lambda: (root / "file").open("x"), FileExistsError),
        (lambda: (root / "file").mkdir(exist_ok=True), FileExistsError),
        (lambda: (root / "dir").unlink(), IsADirectoryError),
        (lambda: (root / "file").rmdir(), NotADirectoryError),
        (lambda: (root / "missing").unlink(), FileNotFoundError),
        (lambda: list((root / "file").iterdir()), NotADirectoryError),
    ]:
        with pytest.raises(exception) as raised:
            action()
        assert isinstance(raised.value, diskfs.DiskfsError)
    with pytest.raises(OSError) as full:
        (root / "dir").rmdir()
    assert full.value.errno == errno.ENOTEMPTY
    (root / "missing").unlink(missing_ok=True)
    (root / "loop").symlink_to("loop")
    assert not (root / "loop").exists()
    assert not (root / "file" / "x").exists()
    assert (root / "file").is_file() and not (root / "file").is_dir()


def test_a_full_disk_is_no_space(image):
    with diskfs.open(image("ext4-default"), "dry-run") as disk:
        with pytest.raises(OSError) as full:
            (disk.root / "large").write_bytes(bytes(64 << 20))
    assert (full.value.errno, full.value.kind) == (errno.ENOSPC, "no_space")


def test_names_are_bytes(disk):
    (disk.root / "\udcff").touch()
    assert "\udcff" in [it.name for it in disk.root.iterdir()]


def test_a_disk_that_is_open_for_reading_is_not_written(image):
    with diskfs.open(image("ext4-default")) as disk:
        assert not disk.writable
        with pytest.raises(diskfs.DiskfsError) as refused:
            (disk.root / "file").write_text("x")
        assert (refused.value.kind, refused.value.errno) == ("read_only", errno.EROFS)


def test_a_closed_disk_refuses(image):
    disk = diskfs.open(image("ext4-default"), "r+")
    file = (disk.root / "file").open("wb", buffering=0)
    disk.close()
    disk.close()
    with pytest.raises(diskfs.DiskfsError, match="the disk is closed"):
        disk.root.stat()
    with pytest.raises(diskfs.DiskfsError, match="closed together with its disk"):
        file.write(b"x")
    # The file does not keep the image locked.
    diskfs.open(disk.path, "r+").close()


def test_a_forgotten_disk_is_closed(image):
    path = image("ext4-default")
    disk = diskfs.open(path, "r+")
    (disk.root / "file").write_text("x")
    del disk
    gc.collect()
    with diskfs.open(path) as disk:
        assert (disk.root / "file").read_text() == "x"


def test_threads_share_a_disk_while_the_lock_is_released(disk):
    data = b"x" * (1 << 20)
    failures = []

    def work(number):
        try:
            for round in range(5):
                path = disk.root / f"{number}-{round}"
                path.write_bytes(data)
                assert path.read_bytes() == data
                path.unlink()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(it,)) for it in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
