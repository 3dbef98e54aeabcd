"""Writes layers for the tests, and applies layers to a directory: the judge of the merged tree.

    layers.py cases DIR          writes the layers of fixed cases as DIR/NAME/0.tar, 1.tar, ...
    layers.py random DIR SEED    writes random layers as DIR/0.tar, 1.tar, ...
    layers.py list DIR           lists DIR as root
    layers.py apply DIR TAR...   applies layers to a new directory DIR as root, and lists it

The judge uses the parser of Python and the kernel's path resolution below chroot(2). Of each layer
it applies the whiteouts first, so that they only remove files of lower layers.
"""

import hashlib
import io
import os
import random
import shutil
import stat
import sys
import tarfile

OLD = 1_600_000_000


def add(tar, name, kind=tarfile.REGTYPE, data=b"", mode=0o644, **more):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), mode
    info.mtime = OLD
    pax = more.pop("pax", {})
    for key, value in more.items():
        setattr(info, key, value)
    info.pax_headers = dict(pax)
    tar.addfile(info, io.BytesIO(data))


def directory(tar, name, mode=0o755, **more):
    add(tar, name, tarfile.DIRTYPE, mode=mode, **more)


def symlink(tar, name, target, **more):
    add(tar, name, tarfile.SYMTYPE, linkname=target, **more)


def link(tar, name, target):
    add(tar, name, tarfile.LNKTYPE, linkname=target)


def xattr(name, value):
    return {"SCHILY.xattr." + name: value}


def kinds(tars):
    lower, upper = tars
    directory(lower, "./", mode=0o751, uid=3)
    add(lower, "./set-uid", data=b"#!", mode=0o6755, uid=3_000_000, gid=4_000_000_000)
    add(lower, "null", tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)
    add(lower, "disk", tarfile.BLKTYPE, devmajor=259, devminor=70000, mode=0o660, gid=6)
    add(lower, "fifo", tarfile.FIFOTYPE, mode=0o600)
    symlink(lower, "l" * 100, "t" * 3000, uid=5)
    add(lower, "d/" + "n" * 250 + "/" + "m" * 250, data=b"long")
    add(lower, "time", pax={"mtime": "1600000000.123456789", "atime": "1500000000.5"})
    add(lower, "before", pax={"mtime": "-5.25"})
    add(lower, "x", data=b"x", pax=xattr("user.a", "line\n=two") | xattr("trusted.b", "\x00"))
    cap = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    add(lower, "ping", data=b"elf", mode=0o755, pax=xattr("security.capability", cap))
    directory(lower, "acl", pax={"SCHILY.acl.default": "user::rwx,user:7:r-x,group::r-x,mask::r-x,other::---"})
    add(lower, "acl/f", data=b"1")
    add(lower, "big", data=bytes(range(256)) * 12_345)
    directory(upper, "acl", mode=0o2750, gid=9)
    add(upper, "acl/g", data=b"2", pax=xattr("user.n", "1"))


def whiteouts(tars):
    lower, upper = tars
    for name in ["a/1", "a/2", "a/sub/3", "b/1", "b/keep/2", "c/1", "d/e/f/1", "gone", "file"]:
        add(lower, name, data=name.encode())
    directory(lower, "b/keep", mode=0o700, uid=8)
    directory(lower, "c", mode=0o711, uid=9)
    add(upper, "a/.wh.1")
    add(upper, "a/.wh.sub")
    add(upper, "a/.wh.missing")
    add(upper, ".wh.gone")
    add(upper, ".wh..wh.plnk/17")
    # Files of the same layer survive, before and after the whiteout.
    add(upper, "b/keep/new", data=b"new")
    add(upper, "b/.wh..wh..opq")
    add(upper, "b/after", data=b"after")
    directory(upper, "c", mode=0o700)
    add(upper, ".wh.c")
    add(upper, "d/e/new")
    add(upper, "d/.wh.e")
    add(upper, "file", data=b"of this layer")
    add(upper, ".wh.file")


def replaced(tars):
    first, second, third = tars
    for name in ["dir/a/b", "dir/c", "file", "todir", "tolink/x", "same", "part"]:
        add(first, name, data=b"1" + name.encode())
    symlink(first, "link", "dir")
    add(second, "dir/a", data=b"file now")
    directory(second, "todir", mode=0o1777)
    add(second, "todir/x", data=b"2")
    symlink(second, "tolink", "todir")
    directory(second, "link", mode=0o500)
    add(second, "same", data=b"2", mode=0o600)
    # A directory that the archive does not contain replaces a file of a lower layer.
    add(second, "part/x", data=b"2")
    add(third, "dir", data=b"a file")
    add(third, "same", data=b"3")
    add(third, "same", data=b"3, again")
    directory(third, "todir", mode=0o755, pax=xattr("user.third", "3"))


def links(tars):
    first, second = tars
    add(first, "a", data=b"a", mode=0o640, uid=4)
    link(first, "b", "a")
    link(first, "sub/c", "./b")
    symlink(first, "s", "a")
    link(first, "s2", "s")
    add(first, "p", data=b"p")
    link(first, "q", "p")
    add(first, "zz", data=b"z")
    link(first, "aa", "zz")
    # Across layers; the name that a higher layer replaces is only detached.
    link(second, "d/e", "a")
    add(second, "b", data=b"new b")
    add(second, ".wh.p")
    link(second, "aa", "zz")
    link(second, "aa", "aa")


def parents(tars):
    lower, upper = tars
    directory(lower, "usr/lib", mode=0o755)
    symlink(lower, "lib", "usr/lib")
    symlink(lower, "abs", "/usr/lib")
    symlink(lower, "up", "../../../usr/./lib/../lib")
    symlink(lower, "chain", "lib")
    symlink(lower, "nowhere", "/new/place")
    symlink(lower, "usr/lib/self", ".")
    add(upper, "lib/1", data=b"1")
    add(upper, "abs/2", data=b"2")
    add(upper, "up/3", data=b"3")
    add(upper, "chain/self/self/4/5", data=b"4")
    add(upper, "nowhere/6", data=b"6")
    add(upper, "/absolute", data=b"name")
    link(upper, "chain/7", "/abs/2")


CASES = {"kinds": (kinds, 2), "whiteouts": (whiteouts, 2), "replaced": (replaced, 3),
         "links": (links, 2), "parents": (parents, 2)}


def write(path, count, fill):
    os.makedirs(path, exist_ok=True)
    names = [os.path.join(path, f"{n}.tar") for n in range(count)]
    tars = [tarfile.open(name, "w", format=tarfile.PAX_FORMAT) for name in names]
    fill(tars)
    for tar in tars:
        tar.close()


class Random:
    """Random layers. A model of the tree keeps the layers valid: its types, by path."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.types = {"": "d"}
        # A whiteout may hide a symlink that a member before it follows: with symlinks, the
        # whiteouts are the first members.
        self.has_symlinks = self.random.random() < 0.5

    def below(self, path):
        return [name for name in self.types if name.startswith(path + "/")]

    def drop(self, path):
        for name in self.below(path) + [path]:
            self.types.pop(name, None)

    def layer(self, tar):
        r = self.random
        hidden = [name for name, kind in self.types.items() if name and r.random() < 0.08]
        opaque = [name for name, kind in self.types.items() if name and kind == "d" and r.random() < 0.08]
        entries = [(os.path.join(os.path.dirname(name), ".wh." + os.path.basename(name))) for name in hidden]
        entries += [name + "/.wh..wh..opq" for name in opaque]
        kept = set()
        for name in hidden + opaque:
            while name := os.path.dirname(name):
                kept.add(name)
        kept |= set(opaque)
        for name in hidden:
            self.drop(name)
        for name in opaque:
            for other in self.below(name):
                self.types.pop(other, None)
        r.shuffle(entries)
        if self.has_symlinks:
            for name in entries:
                add(tar, name)
            entries = []
        for _ in range(r.randrange(1, 25)):
            if entries and r.random() < 0.3:
                add(tar, entries.pop())
            self.member(tar, kept)
        for name in entries:
            add(tar, name)

    def member(self, tar, kept):
        r = self.random
        dirs = [name for name, kind in self.types.items() if kind in "dl"]
        path = os.path.join(r.choice(dirs), r.choice("abcde"))
        if r.random() < 0.15:
            path = os.path.join(path, r.choice("xy"))
        real = self.real(path)
        if real is None:
            return
        kind = r.choice("ddffffhhls" if self.has_symlinks else "ddffffhhs")
        if real in kept and kind != "d":
            return
        if kind == "h":
            files = [name for name, kind in self.types.items() if kind == "f"]
            if not files:
                return
            target = r.choice(files)
            if target == real or target.startswith(real + "/"):
                return
            self.drop(real)
            link(tar, path, target)
            self.types[real] = "f"
            return
        if kind == "d":
            if self.types.get(real) != "d":
                self.drop(real)
            directory(tar, path, mode=r.choice([0o755, 0o700, 0o2775]), uid=r.randrange(9))
            self.types[real] = "d"
            return
        self.drop(real)
        if kind == "l":
            target = r.choice([name for name, kind in self.types.items() if kind == "d"])
            symlink(tar, path, "/" + target)
            # Links are only followed to directories that stay.
            self.types[real] = "s"
        elif kind == "s":
            add(tar, path, tarfile.FIFOTYPE)
            self.types[real] = "s"
        else:
            pax = xattr("user.r", str(r.randrange(100))) if r.random() < 0.2 else {}
            data = bytes([r.randrange(256)]) * r.choice([0, 1, 511, 512, 513, 70_000])
            add(tar, path, data=data, mode=r.choice([0o644, 0o4711]), uid=r.randrange(9), pax=pax)
            self.types[real] = "f"

    def real(self, path):
        """Returns the path if all its parents are directories, and adds missing ones."""
        parts = path.split("/")
        at = ""
        for part in parts[:-1]:
            at = at + "/" + part if at else part
            if self.types.setdefault(at, "d") != "d":
                return None
        return path.lstrip("/")


class Judge:
    """Applies layers below the root directory of the process."""

    def __init__(self):
        self.layer = {}
        self.set_later = {}

    def make(self, path, followed=False, below=0):
        """Makes the directory `path`, whose parents may be symlinks. Returns its real path."""
        at = "/"
        for part in [part for part in path.split("/") if part not in ("", ".")]:
            if part == "..":
                at = os.path.dirname(at)
                continue
            name = os.path.join(at, part)
            try:
                mode = os.lstat(name).st_mode
            except FileNotFoundError:
                os.mkdir(name)
                os.chmod(name, 0o755)
                mode = os.lstat(name).st_mode
            if stat.S_ISLNK(mode):
                target = os.path.join(at, os.readlink(name))
                assert below < 40
                at = self.make(target, True, below + 1)
                continue
            if not stat.S_ISDIR(mode):
                assert not followed and self.layer.get(name) != self.now, "not a directory"
                os.unlink(name)
                os.mkdir(name)
                os.chmod(name, 0o755)
            at = name
        return at

    def remove(self, path):
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return
        for name in [name for name in self.set_later if (name + "/").startswith(path + "/")]:
            del self.set_later[name]
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def whiteout(self, name):
        parent, base = os.path.split(name)
        parent = os.path.realpath(parent)
        if not os.path.isdir(parent):
            return
        if base == ".wh..wh..opq":
            for child in os.listdir(parent):
                self.remove(os.path.join(parent, child))
        else:
            self.remove(os.path.join(parent, base[4:]))

    def apply(self, tar, number):
        self.now = number
        members = tar.getmembers()
        for member in members:
            name = os.path.normpath("/" + member.name)
            if os.path.basename(name).startswith(".wh.") and "/.wh..wh.plnk" not in name:
                self.whiteout(name)
        for member in members:
            if ".wh." not in member.name:
                self.put(tar, member)

    def put(self, tar, member):
        name = os.path.normpath("/" + member.name).replace("//", "/")
        if name == "/":
            return self.attributes(name, member)
        path = os.path.join(self.make(os.path.dirname(name)), os.path.basename(name))
        is_dir = os.path.isdir(path) and not os.path.islink(path)
        if member.islnk():
            target = os.path.normpath("/" + member.linkname).replace("//", "/")
            target = os.path.join(self.make(os.path.dirname(target)), os.path.basename(target))
            if os.path.lexists(path) and os.path.samestat(os.lstat(path), os.lstat(target)):
                return
            self.remove(path)
            os.link(target, path, follow_symlinks=False)
            self.layer[path] = self.now
            return
        if not (is_dir and member.isdir()):
            self.remove(path)
        self.layer[path] = self.now
        if member.isdir():
            if not is_dir:
                os.mkdir(path)
        elif member.issym():
            os.symlink(member.linkname, path)
        elif member.isfifo():
            os.mkfifo(path)
        elif member.ischr() or member.isblk():
            kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
            os.mknod(path, kind | 0o600, os.makedev(member.devmajor, member.devminor))
        else:
            tar.makefile(member, path)
        self.attributes(path, member)

    def attributes(self, path, member):
        if member.isdir():
            self.set_later[path] = member
            for name in os.listxattr(path, follow_symlinks=False):
                os.removexattr(path, name, follow_symlinks=False)
            os.chmod(path, 0o700)
            return
        self.set(path, member)

    def set(self, path, member):
        os.chown(path, member.uid, member.gid, follow_symlinks=False)
        if not member.issym():
            os.chmod(path, member.mode)
        for key, value in member.pax_headers.items():
            if key.startswith("SCHILY.xattr."):
                os.setxattr(path, key[13:], value.encode(), follow_symlinks=False)
            if key == "SCHILY.acl.default":
                os.setxattr(path, "system.posix_acl_default", self.acl)
        seconds, _, fraction = member.pax_headers.get("mtime", str(OLD)).partition(".")
        nanos = int(fraction.ljust(9, "0") or 0)
        time = int(seconds) * 10**9 + (-nanos if seconds.startswith("-") else nanos)
        os.utime(path, ns=(time, time), follow_symlinks=False)

    # user::rwx,user:7:r-x,group::r-x,mask::r-x,other::---
    acl = bytes.fromhex("02000000" "01000700ffffffff" "0200050007000000" "04000500ffffffff"
                        "10000500ffffffff" "20000000ffffffff")

    def finish(self):
        for path in sorted(self.set_later, reverse=True):
            self.set(path, self.set_later[path])


def listing():
    first = {}
    lines = []
    paths = ["/"]
    for top, dirs, files in os.walk("/"):
        paths += [os.path.join(top, name) for name in dirs + files]
    for path in sorted(paths, key=os.fsencode):
        st = os.lstat(path)
        kind = stat.filemode(st.st_mode)[0]
        body = ""
        if kind == "-":
            with open(path, "rb") as file:
                body = hashlib.sha256(file.read()).hexdigest()
        elif kind == "l":
            body = os.readlink(path)
        elif kind in "bc":
            body = f"{os.major(st.st_rdev)}:{os.minor(st.st_rdev)}"
        xattrs = [f"{name}={os.getxattr(path, name, follow_symlinks=False).hex()}"
                  for name in sorted(os.listxattr(path, follow_symlinks=False))]
        same = path if kind == "d" else first.setdefault(st.st_ino, path)
        # Directories without a member have the present time.
        time = "any" if st.st_mtime > 1_700_000_000 else str(st.st_mtime_ns)
        size = st.st_size if kind in "-l" else 0
        lines.append(f"{path} {kind} {stat.S_IMODE(st.st_mode):o} {st.st_uid}:{st.st_gid} {size} "
                     f"{time} {same} {st.st_nlink} {body} {','.join(xattrs)}")
    return lines


def main():
    command, path, *rest = sys.argv[1:]
    if command == "cases":
        for name, (fill, count) in CASES.items():
            write(os.path.join(path, name), count, fill)
    elif command == "random":
        layers = Random(int(rest[0]))
        count = layers.random.randrange(1, 6)
        write(path, count, lambda tars: [layers.layer(tar) for tar in tars])
    elif command == "list":
        os.chroot(path)
        print("\n".join(listing()))
    elif command == "apply":
        os.umask(0)
        tars = [tarfile.open(name) for name in rest]
        os.mkdir(path, 0o755)
        os.chroot(path)
        os.chdir("/")
        judge = Judge()
        for number, tar in enumerate(tars):
            judge.apply(tar, number)
        judge.finish()
        print("\n".join(listing()))


main()
