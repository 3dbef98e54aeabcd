//! Opening a file below a directory, without ever leaving it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat, fstat};
use rustix::io::Errno;

use super::Access;

const FILE_FLAGS: OFlags = OFlags::CLOEXEC
    // Without this flag, opening a FIFO would wait for a peer.
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

/// Opens `rest` below `root` after `check` accepts the file.
///
/// The file is first examined through a descriptor that does not open it (`O_PATH`), because
/// opening has effects: it wakes up the process at the other end of a FIFO, and some devices act on
/// it. `check` then runs again on the opened file, which may be another one by then.
pub(super) fn open_checked<E: From<Errno>>(
    root: &Path,
    rest: &Path,
    access: Access,
    check: impl Fn(&Stat) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let looked_at = open_beneath(root, rest, flags)?;
    check(&fstat(&looked_at)?)?;
    let opened = open_beneath(root, rest, FILE_FLAGS | access.flags())?;
    check(&fstat(&opened)?)?;
    Ok(opened)
}

/// Opens `rest` below `root`. Both are resolved, so no link is followed: if a link has appeared
/// since, opening fails. The opened file is always below `root`, whatever changes meanwhile.
fn open_beneath(root: &Path, rest: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let root_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, root_flags, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&root, rest, flags, Mode::empty(), resolve) {
        // Linux before 5.6 or some sandboxes do not support openat2.
        Err(Errno::NOSYS | Errno::PERM) => walk_beneath(root, rest, flags),
        other => other,
    }
}

/// Opens `rest` below `root` without openat2, one component at a time.
fn walk_beneath(root: OwnedFd, rest: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut dir = root;
    let mut components = rest.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::XDEV);
        };
        if components.peek().is_none() {
            return rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty())?;
    }
    Err(Errno::ISDIR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const READ: OFlags = FILE_FLAGS.union(OFlags::RDONLY);

    fn root_of(dir: &Path) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::empty()).unwrap()
    }

    fn contents(fd: OwnedFd) -> String {
        let mut text = String::new();
        std::fs::File::from(fd).read_to_string(&mut text).unwrap();
        text
    }

    /// Neither way to open follows a link that appeared after the name was resolved.
    #[test]
    fn links_are_not_followed_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/file"), "inside").unwrap();
        std::fs::write(outside.path().join("file"), "outside").unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("sub/file", dir.path().join("near")).unwrap();
        let walk = |rest: &str| walk_beneath(root_of(dir.path()), Path::new(rest), READ);
        let direct = |rest: &str| open_beneath(dir.path(), Path::new(rest), READ);
        assert_eq!(contents(walk("sub/file").unwrap()), "inside");
        assert_eq!(contents(direct("sub/file").unwrap()), "inside");
        for rest in [
            "link/file",
            "near",
            "sub/../../x",
            "/etc/passwd",
            "sub/none",
            "",
        ] {
            assert!(walk(rest).is_err(), "{rest}");
            assert!(direct(rest).is_err(), "{rest}");
        }
    }

    /// Checking a FIFO does not affect the process at its other end.
    #[test]
    fn a_fifo_is_refused_before_it_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let checks = std::cell::Cell::new(0);
        let opened = open_checked(dir.path(), Path::new("fifo"), Access::Read, |_| {
            checks.set(checks.get() + 1);
            // Opening a FIFO for writing without waiting fails if no process reads it.
            let writer = OFlags::WRONLY | OFlags::NONBLOCK;
            let found = rustix::fs::open(&fifo, writer, Mode::empty());
            assert_eq!(found.unwrap_err(), Errno::NXIO);
            Err(Errno::INVAL)
        });
        assert_eq!(opened.unwrap_err(), Errno::INVAL);
        assert_eq!(checks.get(), 1);
    }
}
