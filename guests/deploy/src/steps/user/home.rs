//! Home directories with the files of `/etc/skel`.

use super::super::super::accounts;
use super::super::super::accounts::defaults::Defaults;
use super::super::super::guest::Guest;
use super::super::super::stage::{Entry, EntryKind, above};
use diskfs_disk::Result;

/// The limits on a new home directory: skeleton files are small and few. More is a mistake or an
/// attack.
const MAX_DEPTH: usize = 16;
const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;

/// The default of `UMASK` in login.defs(5), which gives the mode of home directories.
const UMASK: u32 = 0o022;

/// Creates a home directory with copies of the files of `/etc/skel`. An existing directory stays
/// unchanged.
pub(super) fn make(guest: &mut Guest, path: &str, uid: u32, gid: u32) -> Result<()> {
    if guest.stage.exists(path)? {
        if !guest.stage.is_dir(path)? {
            return Err(guest.invalid(format!("{path} is not a directory")));
        }
        return Ok(());
    }
    let defaults = Defaults::read(&guest.stage)?;
    let mode = defaults.number("HOME_MODE").unwrap_or_else(|| {
        let umask = defaults.number("UMASK").unwrap_or(UMASK);
        0o777 & !umask
    });
    let skel = defaults.useradd("SKEL").unwrap_or("/etc/skel").to_owned();
    guest.stage.make_dirs(above(path), 0o755)?;
    make_dir(
        guest,
        path,
        u16::try_from(mode & 0o7777).unwrap_or(0o700),
        (uid, gid),
    )?;
    if !guest.stage.is_dir(&skel)? {
        return Ok(());
    }
    let mut copy = Copy {
        guest,
        owner: (uid, gid),
        entries: 0,
        bytes: 0,
    };
    copy.dir(&skel, path, 0)
}

/// Creates the user's mailbox file, if the guest creates one for each user.
pub(super) fn make_mailbox(
    guest: &mut Guest,
    defaults: &Defaults,
    name: &str,
    uid: u32,
    gid: u32,
) -> Result<()> {
    let is_wanted = defaults.useradd("CREATE_MAIL_SPOOL") == Some("yes");
    let dir = defaults.login("MAIL_DIR").unwrap_or("/var/spool/mail");
    let path = format!("{}/{name}", dir.trim_end_matches('/'));
    if !is_wanted || !guest.stage.is_dir(dir)? || guest.stage.exists(&path)? {
        return Ok(());
    }
    let mail = accounts::gid_of(&guest.stage, "mail")?;
    guest.stage.write_text(&path, "")?;
    guest.stage.set_owner(&path, uid, mail.unwrap_or(gid))?;
    let mode = if mail.is_some() { 0o660 } else { 0o600 };
    guest.stage.set_permissions(&path, mode)
}

fn make_dir(guest: &mut Guest, path: &str, mode: u16, (uid, gid): (u32, u32)) -> Result<()> {
    guest.stage.make_dirs(path, 0o755)?;
    guest.stage.set_permissions(path, mode)?;
    guest.stage.set_owner(path, uid, gid)
}

struct Copy<'g> {
    guest: &'g mut Guest,
    owner: (u32, u32),
    entries: usize,
    bytes: usize,
}

impl Copy<'_> {
    /// Copies the contents of a directory to an existing directory.
    fn dir(&mut self, from: &str, to: &str, depth: usize) -> Result<()> {
        for name in self.guest.stage.names(from)? {
            self.entries = self.entries.saturating_add(1);
            if depth > MAX_DEPTH || self.entries > MAX_ENTRIES {
                let reason = format!(
                    "too many files for a new home directory: at most {MAX_ENTRIES} entries, \
                     {MAX_DEPTH} levels deep ({from})"
                );
                return Err(self.guest.invalid(reason));
            }
            let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
            if let Some(entry) = self.guest.stage.link_entry(&from)? {
                self.entry(&entry, &from, &to, depth)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, from: &str, to: &str, depth: usize) -> Result<()> {
        match &entry.kind {
            EntryKind::Directory => {
                make_dir(self.guest, to, entry.permissions, self.owner)?;
                self.dir(from, to, depth.saturating_add(1))
            }
            EntryKind::File(_) => self.file(from, to, entry.permissions),
            EntryKind::Symlink(target) => {
                self.guest.stage.symlink(to, target)?;
                let (uid, gid) = self.owner;
                self.guest.stage.set_link_owner(to, uid, gid)
            }
            EntryKind::Other(_) => {
                self.guest.note(format!(
                    "{from} was not copied to the new home directory: not a regular file"
                ));
                Ok(())
            }
        }
    }

    fn file(&mut self, from: &str, to: &str, permissions: u16) -> Result<()> {
        let bytes = self.guest.stage.bytes(from)?.unwrap_or_default();
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MAX_BYTES {
            let reason = format!(
                "the files for a new home directory are too large: at most {MAX_BYTES} bytes \
                 ({from})"
            );
            return Err(self.guest.invalid(reason));
        }
        self.guest.stage.write(to, bytes)?;
        self.guest.stage.set_permissions(to, permissions)?;
        let (uid, gid) = self.owner;
        self.guest.stage.set_owner(to, uid, gid)
    }
}
