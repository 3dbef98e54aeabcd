#!/usr/bin/env python3
"""Makes the disk images that browse.py is run on.

Needs root, e2fsprogs, dosfstools, mtools, fdisk, qemu-utils and diskfs. Names, sizes, times and UUIDs are fixed,
so that the screenshots stay the same.
"""
import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zlib
import struct

TIME = 1_700_000_000
UUID = "00000000-0000-4000-8000-%012x"


def run(*command, **options):
    environment = dict(os.environ, E2FSPROGS_FAKE_TIME=str(TIME), SOURCE_DATE_EPOCH=str(TIME))
    result = subprocess.run(command, env=environment, capture_output=True, **options)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr.decode()}")
    return result.stdout


def put(root, path, contents=b"", mode=0o644, owner=(0, 0)):
    full = os.path.join(os.fsencode(root), os.fsencode(path))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)
    os.chmod(full, mode)
    os.chown(full, *owner)
    return full


def settle(root):
    """Sets all times below a directory."""
    for directory, directories, files in os.walk(os.fsencode(root), topdown=False):
        for name in files + directories:
            os.utime(os.path.join(directory, name), (TIME, TIME), follow_symlinks=False)
    os.utime(root, (TIME, TIME))


def png(width, height):
    """A picture with a gradient."""
    rows = b"".join(
        b"\0" + bytes(v for x in range(width) for v in (x * 255 // width, y * 255 // height, 128))
        for y in range(height)
    )

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def other_pictures():
    try:
        from PIL import Image
    except ImportError:
        return {}
    pictures = {}
    for name in ("JPEG", "GIF", "WEBP"):
        buffer = io.BytesIO()
        Image.new("RGB", (48, 32), (40, 120, 200)).save(buffer, name)
        pictures[f"picture.{name.lower()}"] = buffer.getvalue()
    return pictures


def packages(count):
    entries = []
    for number in range(count):
        name = f"lib{'abcdefghij'[number % 10]}{number:04}" if number % 3 else f"tool{number:04}"
        entries.append(
            f"Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: libs\n"
            f"Installed-Size: {number}\nMaintainer: Debian <debian@example.org>\nArchitecture: amd64\n"
            f"Version: {number // 100}.{number % 100}-{number % 7 + 1}\nDescription: package number {number}\n"
            " A longer description.\n"
        )
    entries.append(
        "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2.15-2+b7\n"
        "Maintainer: Debian <debian@example.org>\nDescription: GNU Bourne Again SHell\n"
    )
    return "\n".join(entries)


def guest(root):
    """The tree of a small Debian guest."""
    put(root, "etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n'
        'VERSION_ID="12"\nVERSION="12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n')
    put(root, "etc/debian_version", "12.5\n")
    put(root, "etc/hostname", "web1\n")
    put(root, "etc/hosts", "127.0.0.1 localhost\n127.0.1.1 web1\n")
    put(root, "etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    put(root, "etc/timezone", "Europe/Berlin\n")
    put(root, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        "ann:x:1000:1000:Ann,,,:/home/ann:/bin/bash\n")
    put(root, "etc/shadow", "root:*:19000:0:99999:7:::\nann:$y$j9T$abc$def:19000:0:99999:7:::\n", 0o640, (0, 42))
    put(root, "etc/group", "root:x:0:\nshadow:x:42:\nsudo:x:27:ann\nann:x:1000:\n")
    put(root, "etc/fstab", f"UUID={UUID % 2} / ext4 errors=remount-ro 0 1\nUUID={UUID % 3} /srv ext4 defaults 0 2\n")
    put(root, "etc/network/interfaces", "auto lo\niface lo inet loopback\nauto eth0\niface eth0 inet static\n"
        "  address 192.0.2.7/24\n  gateway 192.0.2.1\n")
    put(root, "etc/resolv.conf", "nameserver 192.0.2.53\nsearch example.org\n")
    put(root, "etc/ssh/sshd_config", "PermitRootLogin no\nPasswordAuthentication no\n")
    put(root, "etc/sudoers", "root ALL=(ALL:ALL) ALL\n%sudo ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    put(root, "etc/crontab", "17 * * * * root run-parts /etc/cron.hourly\n")
    put(root, "lib/systemd/systemd", b"\x7fELF" + bytes(100), 0o755)
    put(root, "lib/systemd/system/ssh.service", "[Unit]\nDescription=OpenSSH\n[Service]\nExecStart=/usr/sbin/sshd\n"
        "[Install]\nWantedBy=multi-user.target\n")
    os.makedirs(f"{root}/etc/systemd/system/multi-user.target.wants")
    os.symlink("/lib/systemd/system/ssh.service", f"{root}/etc/systemd/system/multi-user.target.wants/ssh.service")
    put(root, "var/lib/dpkg/status", packages(1500))
    put(root, "var/log/syslog", "".join(
        f"2023-11-14T{hour:02}:{minute:02}:00.000000+00:00 web1 app[{hour}]: message {hour * 60 + minute} of the day\n"
        for hour in range(24) for minute in range(60)))
    put(root, "var/log/auth.log", "2023-11-14T12:30:10.000000+00:00 web1 sshd[77]: Accepted publickey for ann\n")
    put(root, "home/ann/notes.txt", "first line\nsecond line\n" + "a tab\tand text\n" * 30, owner=(1000, 1000))
    put(root, "home/ann/long.txt", "".join(f"line {n} of a long text file\n" for n in range(20000)), owner=(1000, 1000))
    put(root, "home/ann/picture.png", png(64, 48), owner=(1000, 1000))
    for name, contents in other_pictures().items():
        put(root, f"home/ann/{name}", contents, owner=(1000, 1000))
    put(root, "home/ann/bytes.bin", bytes(range(256)) * 4096, 0o600, (1000, 1000))
    put(root, "bin/bash", b"\x7fELF" + bytes(5000), 0o755)
    put(root, "usr/bin/sudo", b"\x7fELF" + bytes(20000), 0o4755)
    for number in range(40):
        put(root, f"usr/share/doc/part{number % 8}/file{number}.txt", f"text {number}\n" * (50 + number * 300))
    for number in range(12):
        put(root, f"usr/lib/modules/block{number}.ko", os.urandom(0) + bytes([number]) * (200_000 + number * 90_000))
    sparse = put(root, "var/lib/sparse.img", b"begin")
    with open(sparse, "r+b") as file:
        file.seek(8 << 20)
        file.write(b"end" * 2000)
    os.symlink("/etc/hosts", f"{root}/home/ann/link")
    os.symlink("../lib/systemd/system", f"{root}/usr/relative")
    os.mkfifo(f"{root}/var/fifo")
    os.setxattr(f"{root}/home/ann/notes.txt", "user.comment", b"read this")
    os.setxattr(f"{root}/home/ann/notes.txt", "user.bytes", b"\0\1\2\xff")
    for name in ("boot", "dev", "proc", "root", "run", "srv", "sys", "tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    os.chmod(f"{root}/tmp", 0o1777)


def large(root):
    """The same guest with a journal. Its directory of many files is added later."""
    guest(root)
    journal = f"{os.path.dirname(os.path.abspath(__file__))}/../../files/journal/tests/fixtures/three-boots.journal.zst"
    put(root, "var/log/journal/0123456789abcdef0123456789abcdef/system.journal", run("zstd", "-dc", journal))


def hostile(root):
    """A tree whose names and contents try to become markup or to control the reader."""
    guest(root)
    put(root, "etc/os-release", 'PRETTY_NAME="<img src=x onerror=alert(2)>"\nID=debian\nVERSION_ID=12\n')
    put(root, "etc/hostname", "<b>bold</b>\n")
    put(root, "etc/passwd", 'root:x:0:0:"><script>alert(3)</script>:/root:/bin/bash\n'
        "<img src=x onerror=alert(4)>:x:1001:1001::/:/bin/sh\n")
    put(root, "var/log/syslog", "2023-11-14T10:00:00.000000+00:00 web1 app: <img src=x onerror=alert(5)>\n"
        "2023-11-14T10:00:01.000000+00:00 web1 app: \x1b[31mred\x1b[0m \u202egnp.exe\n")
    put(root, "var/lib/dpkg/status", "Package: <i>x</i>\nStatus: install ok installed\nArchitecture: amd64\n"
        "Version: 1<script>alert(6)</script>\nDescription: <img src=x onerror=alert(7)>\n")
    page = "<html><script>alert(8)</script><img src=x onerror=alert(9)></html>\n"
    for name in HOSTILE_NAMES:
        put(root, b"evil/" + name, page)
    put(root, "evil/\u202esub\u2066dir<script>alert(10)<!/script>/inner.txt", page)
    put(root, "evil/page.html", page)
    put(root, "evil/picture.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(11)'/>")
    put(root, "evil/not-a-picture.png", page)
    put(root, "evil/control.txt", "before\x1b[2Jafter\x07 \u202ereversed\u202c \u2066isolate\u2069 \x00zero\r\nend\n")


HOSTILE_NAMES = [
    b"<img src=x onerror=alert(1)>",
    b'"><script>alert(1)<!script>',
    b"new\nline",
    b"tab\there",
    b"\xe2\x80\xaegnp.exe",
    b"\xe2\x81\xa6isolate\xe2\x81\xa9",
    b"invalid-\xff\xfe-utf8",
    b"a\xcc\x81" * 20,
    b"x" * 255,
    "\U0001f600".encode(),
    b" leading and trailing ",
    b"%2e%2e%2fpercent",
    b"..\\..\\windows",
    b"back\\slash",
    b"javascript:alert(1)",
    b"#hash?query=1&a=b",
    b"\x1b[31mescape",
    b"__proto__",
    b"constructor",
]


def add_many_files(diskfs, image):
    """Adds a directory with 100,000 files; mke2fs would take many minutes for them."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(100_000):
            entry = tarfile.TarInfo(f"many/file-{number:06}.txt")
            entry.mtime = TIME + number
            entry.size = number // 1000 if number % 1000 == 0 else 0
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    run(diskfs, "tar-in", image, input=archive.getvalue())


def partition(path, size, label, number, root=None):
    options = ["-q", "-F", "-t", "ext4", "-L", label, "-U", UUID % number,
               "-E", f"hash_seed={UUID % 99},root_owner=0:0"]
    if root:
        settle(root)
        options += ["-d", root]
    if label == "large":
        options += ["-N", "120000"]
    run("truncate", "-s", size, path)
    run("mke2fs", *options, path)


def assemble(output, parts, work):
    """Writes a GPT with partitions: (size in MiB, type, contents or None)."""
    total = 2 + sum(size for size, _, _ in parts)
    lines = [f"label: gpt\nlabel-id: {UUID % 100}\nfirst-lba: 2048\n"]
    start = 1
    if os.path.exists(output):
        os.unlink(output)
    run("truncate", "-s", f"{total}M", output)
    for number, (size, kind, contents) in enumerate(parts, 1):
        lines.append(f"start={start * 2048}, size={size * 2048}, type={kind}, uuid={UUID % (200 + number)}, name=part{number}\n")
        if contents:
            run("dd", f"if={contents}", f"of={output}", "bs=1M", f"seek={start}", "conv=notrunc,sparse")
        start += size
    run("sfdisk", "-q", output, input="".join(lines).encode())


def fat(path):
    run("truncate", "-s", "34M", path)
    run("mkfs.vfat", "-F", "32", "-s", "1", "-i", "01020304", "-n", "ESP", path)


def make_guest_disk(fill, output, work, size=160, label="root"):
    root = f"{work}/{label}-tree"
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    fill(root)
    partition(f"{work}/{label}.ext4", f"{size}M", label, 2, root)
    data = f"{work}/{label}-data"
    shutil.rmtree(data, ignore_errors=True)
    put(data, "data.txt", "data\n")
    partition(f"{work}/{label}-data.ext4", "64M", "data", 3, data)
    if not os.path.exists(f"{work}/esp.fat"):
        fat(f"{work}/esp.fat")
    efi, linux, bios = ("C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "0FC63DAF-8483-4772-8E79-3D69D8477DE4",
                        "21686148-6449-6E6F-744E-656564454649")
    assemble(output, [(1, bios, None), (34, efi, f"{work}/esp.fat"), (size, linux, f"{work}/{label}.ext4"),
                      (64, linux, f"{work}/{label}-data.ext4")], work)
    shutil.rmtree(root)
    shutil.rmtree(data)


def change(diskfs, image, text):
    def write(path, contents):
        run(diskfs, "write", f"{image}:{path}", input=contents.encode())
    write("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {text}\n::1 localhost\n")
    write(f"/etc/{text}.conf", "new = yes\n")
    write("/home/ann/notes.txt", "first line\nsecond line changed\n" + "a tab\tand text\n" * 29 + "last line\n")
    run(diskfs, "chmod", "0600", f"{image}:/etc/hostname")
    run(diskfs, "rm", f"{image}:/etc/crontab")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--diskfs", default="diskfs")
    parser.add_argument("directory")
    options = parser.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    os.chdir(options.directory)
    work = "work"
    os.makedirs(work, exist_ok=True)
    make_guest_disk(guest, "guest.raw", work)
    run("qemu-img", "convert", "-O", "qcow2", "guest.raw", "guest.qcow2")
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "guest.qcow2", "overlay.qcow2")
    change(options.diskfs, "overlay.qcow2", "overlay")
    shutil.copy("guest.qcow2", "snapshots.qcow2")
    run("qemu-img", "snapshot", "-c", "before", "snapshots.qcow2")
    change(options.diskfs, "snapshots.qcow2", "after")
    run("qemu-img", "snapshot", "-c", "after", "snapshots.qcow2")
    make_guest_disk(hostile, "hostile.raw", work, label="hostile")
    make_guest_disk(large, "large.raw", work, size=320, label="large")
    add_many_files(options.diskfs, "large.raw:/")
    shutil.rmtree(work)


main()
