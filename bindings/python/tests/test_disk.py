"""Disks: opening, volumes, inspection and deployment."""

import subprocess
import sys

import pytest

import diskfs

PLAN = {"steps": [{"hostname": "web1"}, {"write": {"path": "/etc/motd", "text": "hi\n"}}]}


def test_a_guest_is_described(demo):
    with diskfs.open(demo) as disk:
        assert "NAME=" in (disk.root / "etc" / "os-release").read_text()
        document = disk.inspect()
        assert document["diskfs"] == {"version": 1, "command": "inspect"}
        (system,) = document["systems"]
        assert system["distribution"] and "sources" not in system
        assert disk.inspect(sources=True)["systems"][0]["sources"]
        info = disk.info()
        assert info["image"]["format"] == "qcow2"
        names = [volume.name for volume in disk.volumes()]
        assert names == [volume["volume"] for volume in info["volumes"]]
        readable = next(volume for volume in disk.volumes() if volume.is_readable)
        assert readable.size_bytes > 0 and readable.kind
        assert list(readable.root.iterdir())
        assert str(demo) in repr(disk)


def test_a_plan_is_applied(image):
    path = image("demo.qcow2")
    calls = []
    with diskfs.open(path, "r+") as disk:
        (disk.root / "before").write_text("x")
        planned = disk.deploy(PLAN, dry_run=True)
        assert planned["dry_run"] and "+web1" in planned["guests"][0]["diff"]
        done = disk.deploy(PLAN, progress=lambda *it: calls.append(it))
        assert [step["step"] for step in done["guests"][0]["steps"]] == ["hostname", "write"]
        assert (disk.root / "etc/motd").read_text() == "hi\n"
        again = disk.deploy("steps: [{hostname: web1}]")
        assert again["guests"][0]["steps"][0]["changed"] == []
    assert calls and all(done <= total for done, total in calls)
    with diskfs.open(path) as disk:
        assert (disk.root / "before").exists()
        assert disk.inspect()["systems"][0]["hostname"] == "web1"


def test_an_exception_of_the_callback_cancels(image):
    def fail(done, total):
        raise KeyError("stop")

    with diskfs.open(image("demo.qcow2"), "r+") as disk:
        # It would wait for itself.
        with pytest.raises(diskfs.DiskfsError, match="in a callback"):
            disk.deploy(PLAN, progress=lambda *_: disk.root.stat())
        with pytest.raises(KeyError, match="stop"):
            disk.deploy(PLAN, progress=fail)
        assert disk.inspect()["systems"][0]["hostname"] != "web1"
        with pytest.raises(diskfs.DiskfsError, match="invalid plan") as invalid:
            disk.deploy({"steps": [{"nonsense": 1}]})
        assert invalid.value.kind == "invalid"


def test_unusable_images_are_errors(image, tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        diskfs.open(tmp_path / "missing.qcow2")
    assert missing.value.filename == str(tmp_path / "missing.qcow2")

    path = image("ext4-default")
    with diskfs.open(path, "r+"):
        script = f"import diskfs; diskfs.open({str(path)!r})"
        other = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        assert "diskfs.DiskfsError" in other.stderr and "in use" in other.stderr
    diskfs.open(path).close()

    with open(path, "r+b") as file:
        file.seek(1024 + 0x78)
        file.write(b"x")
    with diskfs.open(path) as disk:
        with pytest.raises(diskfs.DiskfsError) as corrupt:
            disk.root.stat()
    assert corrupt.value.kind == "corrupt"

    encrypted = image("encrypted")
    for passphrase in [None, "wrong", {"disk": b"wrong"}]:
        with diskfs.open(encrypted, passphrase=passphrase) as disk:
            with pytest.raises(PermissionError) as denied:
                disk.root.stat()
            assert denied.value.kind == "denied"
    for passphrase in ["secret", {"disk": b"secret"}]:
        with diskfs.open(encrypted, passphrase=passphrase) as disk:
            assert "disk/luks" in [volume.name for volume in disk.volumes()]


def test_options_are_checked(image):
    path = image("ext4-default")
    for arguments in [{"mode": "w"}, {"mode": "r", "overlay": "x"}]:
        with pytest.raises(ValueError):
            diskfs.open(path, **arguments)
    with pytest.raises(diskfs.DiskfsError, match="unsupported image format"):
        diskfs.open(path, format="cloop")
    with pytest.raises(TypeError):
        diskfs.open(path, format=7)
    with pytest.raises(FileNotFoundError, match="no such volume"):
        with diskfs.open(path) as disk:
            disk.volume("p9").stat()


def test_an_overlay_keeps_the_image(image, tmp_path):
    path = image("ext4-default")
    before = path.read_bytes()
    overlay = tmp_path / "overlay.qcow2"
    with diskfs.open(path, "r+", overlay=overlay) as disk:
        (disk.root / "new").write_text("x")
    assert path.read_bytes() == before
    with diskfs.open(overlay) as disk:
        assert (disk.root / "new").read_text() == "x"
    with pytest.raises(PermissionError) as refused:
        diskfs.open(overlay, backing=None)
    assert refused.value.kind == "denied"
