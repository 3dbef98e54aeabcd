//! The name server of the machine's network in the guest's `resolv.conf`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, fstatfs, mkdirat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use rustix::mount::mount_bind;

use super::tree::{name_of, open_below};
use crate::network::RESOLV_CONF;

/// The magic number of tmpfs, `TMPFS_MAGIC` of linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Shows the name server in the tree, if there is a network, without writing to the guest. Returns
/// the bind mount, if one was made.
pub(super) fn show(root: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    if !fs::exists(RESOLV_CONF)? {
        return Ok(None);
    }
    let etc = open_below(root, b"/etc")?;
    let stat = statat(&etc, "resolv.conf", AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = readlinkat(&etc, "resolv.conf", Vec::new())?;
            make_in_run(root, &target.to_string_lossy()).map(|()| None)
        }
        FileType::RegularFile => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = || openat2(&etc, "resolv.conf", flags, Mode::empty(), BENEATH);
            mount_bind(RESOLV_CONF, name_of(&open()?))?;
            Ok(Some(open()?))
        }
        _ => Err(Errno::INVAL.into()),
    }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Creates the target of the symlink `/etc/resolv.conf` if it is in `/run`, which is empty and
/// belongs to the machine.
fn make_in_run(root: &OwnedFd, target: &str) -> io::Result<()> {
    let in_run = target
        .strip_prefix("/run/")
        .or_else(|| target.strip_prefix("../run/"));
    let in_run = Path::new(in_run.ok_or(Errno::INVAL)?);
    let is_plain = |part| matches!(part, Component::Normal(_));
    if !in_run.components().all(is_plain) {
        return Err(Errno::INVAL.into());
    }
    let run = open_below(root, b"/run")?;
    if u64::try_from(fstatfs(&run)?.f_type) != Ok(TMPFS_MAGIC) {
        return Err(Errno::INVAL.into());
    }
    if let Some(dirs) = in_run.parent() {
        make_dirs(&run, dirs)?;
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = openat2(&run, in_run, flags, Mode::from_raw_mode(0o644), BENEATH)?;
    File::from(made).write_all(&fs::read(RESOLV_CONF)?)
}

fn make_dirs(run: impl AsFd, dirs: &Path) -> io::Result<()> {
    let all: Vec<_> = dirs
        .ancestors()
        .filter(|dir| dir.file_name().is_some())
        .collect();
    for dir in all.into_iter().rev() {
        match mkdirat(&run, dir, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
