"""The filesystem of fsspec, found by its entry point."""

import fsspec
import pytest


def test_files_are_read_by_url(demo):
    with fsspec.open(f"diskfs://etc/os-release::{demo}", "rt") as file:
        assert "NAME=" in file.read()
    with fsspec.open("diskfs:///etc/os-release", "rb", fo=str(demo)) as file:
        assert b"NAME=" in file.read()


def test_a_tree_is_read(demo):
    fs = fsspec.filesystem("diskfs", fo=demo)
    assert "etc" in fs.ls("/", detail=False)
    entry = fs.info("/etc/os-release")
    assert (entry["name"], entry["type"]) == ("etc/os-release", "file")
    assert entry["size"] == len(fs.cat("etc/os-release"))
    assert fs.cat_file("etc/os-release", 1, 5) == fs.cat("etc/os-release")[1:5]
    assert fs.isdir("etc") and fs.isfile("etc/os-release") and not fs.exists("missing")
    assert "etc/os-release" in fs.find("etc")
    assert "etc/os-release" in fs.glob("etc/os-*")
    assert fs.modified("etc").year >= 1970
    with pytest.raises(FileNotFoundError):
        fs.cat("missing")
    with pytest.raises(FileNotFoundError):
        fs.ls("missing")


def test_a_tree_is_changed(image, tmp_path):
    path = image("ext4-default")
    fs = fsspec.filesystem("diskfs", fo=path, mode="r+")
    fs.makedirs("new/a", exist_ok=True)
    fs.pipe("new/a/one", b"1")
    with fs.open("new/a/two", "wb") as file:
        file.write(b"22")
    fs.cp("new/a/one", "new/copy")
    fs.mv("new/a/two", "new/two")
    fs.rm("new/a", recursive=True)
    (tmp_path / "local").write_bytes(b"local")
    fs.put(str(tmp_path / "local"), "new/local")
    assert fs.ls("new", detail=False) == ["new/copy", "new/local", "new/two"]
    assert fs.du("new") == 8
    fs.close()
    fs = fsspec.filesystem("diskfs", fo=path)
    assert fs.cat("new/two") == b"22"
    fs.get("new/local", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"local"


def test_options_are_checked(demo):
    with pytest.raises(ValueError, match="missing image"):
        fsspec.filesystem("diskfs")
    with pytest.raises(ValueError, match="must be a local file"):
        fsspec.filesystem("diskfs", fo=demo, target_protocol="https")
