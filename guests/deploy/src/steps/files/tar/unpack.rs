//! Unpacking of archive members into the stage.

use std::io::Read;
use std::path::PathBuf;

use diskfs_vfs as vfs;

use super::super::super::super::guest::Guest;
use super::super::super::super::stage::{EntryKind as Staged, above};
use super::spool::Spool;
use diskfs_archive::{Member, MemberKind};
use diskfs_disk::{Error, Result};

/// The limit on the number of members, each of which is kept in memory.
const MAX_MEMBERS: usize = 1_000_000;

/// The limit on the memory for the names and values of all extended attributes.
const ATTRIBUTES_BYTES: usize = 64 << 20;

/// The limit on the length of a symlink's target: `PATH_MAX` without the NUL.
const TARGET_BYTES: usize = 4095;

pub(super) struct Unpacker {
    /// The destination directory with symlinks resolved; "" for the root.
    top: String,
    owner: Option<(u32, Option<u32>)>,
    spool: Spool,
    members: usize,
    attributes_bytes: usize,
    /// The skipped devices and FIFOs: the path of the first one, and their number.
    left_out: Option<(String, usize)>,
    xattrs_left_out: usize,
}

impl Unpacker {
    /// Returns an unpacker of the archive at this path, which errors name.
    pub(super) fn new(
        guest: &Guest,
        archive: PathBuf,
        to: &str,
        owner: Option<(u32, Option<u32>)>,
    ) -> Result<Self> {
        let statistics = guest.stage.guest().statistics()?;
        let room = statistics
            .blocks
            .saturating_mul(statistics.block_size.into());
        Ok(Self {
            top: guest.stage.resolved(to)?,
            owner,
            spool: Spool::new(archive, room),
            members: 0,
            attributes_bytes: 0,
            left_out: None,
            xattrs_left_out: 0,
        })
    }

    /// Writes a member into the stage.
    pub(super) fn put(
        &mut self,
        guest: &mut Guest,
        member: &Member,
        contents: &mut impl Read,
    ) -> Result<()> {
        self.count(guest, member)?;
        let Some(path) = self.path_of(guest, &member.name)? else {
            // The destination directory itself, which stays unchanged.
            return Ok(());
        };
        let (uid, gid) = self.owner_of(member);
        match &member.kind {
            MemberKind::Directory => self.put_directory(guest, member, &path),
            MemberKind::Regular => {
                make_room(guest, &path)?;
                let contents = self.spool.take(member, contents);
                let contents = contents.map_err(|error| about(guest, &path, error))?;
                guest.stage.write(&path, contents)?;
                self.set(guest, member, &path)
            }
            MemberKind::Symlink(target) => {
                let target = std::str::from_utf8(target).ok();
                let is_good = |target: &&str| {
                    !target.is_empty() && target.len() <= TARGET_BYTES && !target.contains('\0')
                };
                let target = target.filter(is_good).ok_or_else(|| {
                    let reason =
                        "invalid symlink in the archive: the target is empty, too long or not \
                         valid UTF-8";
                    guest.stage.error(vfs::ErrorKind::Invalid, reason, &path)
                })?;
                self.xattrs_left_out += member.xattrs.len();
                make_parent(guest, &path)?;
                guest.stage.symlink(&path, target)?;
                guest.stage.set_link_owner(&path, uid, gid)
            }
            MemberKind::HardLink(first) => {
                let first = self.path_of(guest, first)?.ok_or_else(|| {
                    let reason = "invalid hard link in the archive: it points to a directory";
                    guest.stage.error(vfs::ErrorKind::Invalid, reason, &path)
                })?;
                make_parent(guest, &path)?;
                guest.stage.hard_link(&path, &first)
            }
            MemberKind::CharacterDevice(_) | MemberKind::BlockDevice(_) | MemberKind::Fifo => {
                let left_out = self.left_out.get_or_insert((path, 0));
                left_out.1 += 1;
                Ok(())
            }
        }
    }

    /// Adds notes about what was skipped.
    pub(super) fn add_notes(self, guest: &mut Guest) {
        if let Some((first, count)) = self.left_out {
            guest.note(format!(
                "{count} devices and FIFOs of the archive were skipped; the first is {first}"
            ));
        }
        if self.xattrs_left_out > 0 {
            let count = self.xattrs_left_out;
            guest.note(format!(
                "{count} extended attributes of the archive were skipped: they belong to \
                 symlinks, or their names are not valid"
            ));
        }
    }

    fn count(&mut self, guest: &Guest, member: &Member) -> Result<()> {
        self.members += 1;
        if self.members > MAX_MEMBERS {
            let reason = format!("the archive is too large: at most {MAX_MEMBERS} members");
            return Err(guest.invalid(reason));
        }
        let values = member.xattrs.iter();
        let values: usize = values.map(|(name, value)| name.len() + value.len()).sum();
        self.attributes_bytes += values;
        if self.attributes_bytes > ATTRIBUTES_BYTES {
            let reason = format!(
                "the extended attributes of the archive are too large: at most \
                 {ATTRIBUTES_BYTES} bytes"
            );
            return Err(guest.invalid(reason));
        }
        Ok(())
    }

    /// Returns the destination of a name in the archive, with symlinks resolved up to its parent
    /// directory; `None` for the destination directory itself.
    fn path_of(&self, guest: &Guest, name: &[u8]) -> Result<Option<String>> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let refused = |kind, reason: &str| Err(guest.stage.error(kind, reason, &shown));
        let Ok(name) = std::str::from_utf8(name) else {
            let reason = "invalid name in the archive: not valid UTF-8";
            return refused(vfs::ErrorKind::Invalid, reason);
        };
        if name.starts_with('/') {
            let reason = "refusing to unpack an absolute name";
            return refused(vfs::ErrorKind::Denied, reason);
        }
        let mut names = name.split('/').filter(|name| !matches!(*name, "" | "."));
        if names.clone().any(|name| name == "..") {
            let reason = "refusing to unpack a name with `..`";
            return refused(vfs::ErrorKind::Denied, reason);
        }
        let Some(last) = names.next_back() else {
            return Ok(None);
        };
        let above = names.fold(self.top.clone(), |path, name| format!("{path}/{name}"));
        let dir = guest.stage.resolved(&above)?;
        self.check(guest, &dir, &above)?;
        Ok(Some(format!("{dir}/{last}")))
    }

    /// Checks that a path without symlinks is below the destination directory.
    fn check(&self, guest: &Guest, place: &str, path: &str) -> Result<()> {
        let rest = place.strip_prefix(&*self.top);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Ok(());
        }
        let reason = "refusing to unpack through a symlink that leaves the destination directory";
        Err(guest.stage.error(vfs::ErrorKind::Denied, reason, path))
    }

    fn owner_of(&self, member: &Member) -> (u32, u32) {
        match self.owner {
            Some((uid, gid)) => (uid, gid.unwrap_or(member.gid)),
            None => (member.uid, member.gid),
        }
    }

    /// Creates a directory, also behind a symlink: in many guests `/lib` is a symlink, and must
    /// stay one.
    fn put_directory(&mut self, guest: &mut Guest, member: &Member, path: &str) -> Result<()> {
        let place = guest.stage.resolved(path)?;
        self.check(guest, &place, path)?;
        guest.stage.make_dirs(&place, 0o755)?;
        let there = guest.stage.entry(&place)?;
        if there.is_some_and(|entry| entry.is_new) {
            self.set(guest, member, &place)?;
        }
        Ok(())
    }

    fn set(&mut self, guest: &mut Guest, member: &Member, path: &str) -> Result<()> {
        let (uid, gid) = self.owner_of(member);
        guest.stage.set_permissions(path, member.permissions)?;
        guest.stage.set_owner(path, uid, gid)?;
        for (name, value) in &member.xattrs {
            match std::str::from_utf8(name) {
                Ok(name) if !name.is_empty() => guest.stage.set_xattr(path, name, value)?,
                _ => self.xattrs_left_out += 1,
            }
        }
        Ok(())
    }
}

fn make_parent(guest: &mut Guest, path: &str) -> Result<()> {
    guest.stage.make_dirs(above(path), 0o755)
}

/// Removes a symlink at the place of a file.
fn make_room(guest: &mut Guest, path: &str) -> Result<()> {
    make_parent(guest, path)?;
    let there = guest.stage.link_entry(path)?;
    if there.is_some_and(|entry| matches!(entry.kind, Staged::Symlink(_))) {
        guest.stage.remove(path)?;
    }
    Ok(())
}

/// Returns an error with the path of a member, about the guest unless it names another file.
fn about(guest: &Guest, path: &str, error: Error) -> Error {
    if error.file().is_some() {
        return error;
    }
    let reason = format!("{path}: {}", error.reason());
    let told = Error::new(error.kind(), reason).in_file(guest.stage.guest().image_path());
    match error.next_step() {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}
