//! Members, put where they belong.

use std::io::Read;

use diskfs::archive::{Contents, Kind, Member};
use diskfs::vfs::edit::remove_inherited_acls;
use diskfs::vfs::{
    Error, ErrorKind, FileWriter, Follow, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind,
    Result, SetMetadata, SetTime, SetXattr, resolve_beneath,
};

use super::TarIn;
use crate::cli::target::new_file;

/// Unpacks members below a directory.
pub(super) struct Unpacker<'a> {
    fs: &'a dyn FsWrite,
    /// Where the archive is unpacked.
    top: InodeNumber,
    options: &'a TarIn,
    /// The directory that the last member went to, by its path: the next one mostly goes there, too.
    last_dir: Option<(Vec<u8>, InodeNumber)>,
    /// Directories get their attributes at the end: filling them changes their times, and may need
    /// rights that they don't give.
    directories: Vec<(InodeNumber, Member)>,
    buffer: Vec<u8>,
    pub(super) xattrs_ignored: u64,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(fs: &'a dyn FsWrite, top: InodeNumber, options: &'a TarIn) -> Self {
        Self {
            fs,
            top,
            options,
            last_dir: None,
            directories: Vec::new(),
            buffer: Vec::new(),
            xattrs_ignored: 0,
        }
    }

    /// Unpacks a member.
    pub(super) fn unpack(
        &mut self,
        member: Member,
        contents: Contents<'_, '_>,
        told: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let name = member.name.clone();
        self.try_unpack(member, contents, told)
            .map_err(|error| error.in_path(name))
    }

    fn try_unpack(
        &mut self,
        member: Member,
        contents: Contents<'_, '_>,
        told: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let path = plain_path(&member.name)?;
        let Some((dir, name)) = split(&path) else {
            if member.kind == Kind::Directory {
                self.directories.push((self.top, member));
                return Ok(());
            }
            return Err(Error::new(
                ErrorKind::IsADirectory,
                "takes the place of the directory itself",
            ));
        };
        let dir = self.directory(dir)?;
        if member.kind == Kind::Directory {
            let inode = self.make_directory(dir, name, &path, &member)?;
            self.directories.push((inode, member));
            return Ok(());
        }
        self.make_room(dir, name)?;
        if let Kind::HardLink(first) = &member.kind {
            let first = plain_path(first)?;
            let inode = resolve_beneath(self.fs, self.top, &first, Follow::AllButLast)?;
            return self.fs.link(inode, dir, name);
        }
        let inode = self.create(dir, name, &member)?;
        if member.kind == Kind::Regular {
            self.fill(inode, &member, contents, told)?;
        }
        self.set_attributes(inode, &member)
    }

    /// Gives the directories what they have in the archive, the innermost first. Returns what
    /// failed.
    pub(super) fn finish(&mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        while let Some((inode, member)) = self.directories.pop() {
            if let Err(error) = self.set_attributes(inode, &member) {
                errors.push(error.in_path(&member.name));
            }
        }
        errors
    }

    /// The directory at `path`, made with those above it where it isn't there.
    fn directory(&mut self, path: &[u8]) -> Result<InodeNumber> {
        if let Some((last, inode)) = &self.last_dir
            && last == path
        {
            return Ok(*inode);
        }
        let inode = match resolve_beneath(self.fs, self.top, path, Follow::All) {
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_empty() => {
                let (above, name) = split(path).unwrap_or((b"", path));
                let above = self.directory(above)?;
                let attributes = new_file(0o777);
                self.fs
                    .create(above, name, NewKind::Directory, &attributes)?
            }
            found => found?,
        };
        if !self.fs.metadata(inode)?.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        self.last_dir = Some((path.to_vec(), inode));
        Ok(inode)
    }

    /// A directory of the archive. One that is there is taken, also behind a symlink: `/lib` of many
    /// guests is one, and must stay it.
    fn make_directory(
        &mut self,
        dir: InodeNumber,
        name: &[u8],
        path: &[u8],
        member: &Member,
    ) -> Result<InodeNumber> {
        match resolve_beneath(self.fs, self.top, path, Follow::All) {
            Ok(inode) if self.fs.metadata(inode)?.is_dir() => return Ok(inode),
            Ok(_) => self.make_room(dir, name)?,
            Err(error) if error.kind() == ErrorKind::NotFound => self.make_room(dir, name)?,
            Err(error) => return Err(error),
        }
        let attributes = self.attributes(member);
        self.fs.create(dir, name, NewKind::Directory, &attributes)
    }

    fn there(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<Metadata>> {
        match self.fs.lookup(dir, name) {
            Ok(inode) => self.fs.metadata(inode).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes away what has the name, if it may.
    fn make_room(&mut self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let Some(there) = self.there(dir, name)? else {
            return Ok(());
        };
        if self.options.keep_old_files {
            return Err(ErrorKind::Exists.into());
        }
        if there.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        // It may have been a symlink on the way to the directory that came last.
        self.last_dir = None;
        self.fs.unlink(dir, name)
    }

    fn attributes(&self, member: &Member) -> NewAttributes {
        let (uid, gid) = self.owner(member);
        NewAttributes {
            permissions: member.permissions,
            umask: 0,
            uid,
            gid,
        }
    }

    fn owner(&self, member: &Member) -> (u32, u32) {
        if self.options.no_same_owner {
            (0, 0)
        } else {
            (member.uid, member.gid)
        }
    }

    fn create(&self, dir: InodeNumber, name: &[u8], member: &Member) -> Result<InodeNumber> {
        let kind = match &member.kind {
            Kind::Symlink(target) => NewKind::Symlink(target),
            Kind::CharacterDevice(device) => NewKind::CharacterDevice(*device),
            Kind::BlockDevice(device) => NewKind::BlockDevice(*device),
            Kind::Fifo => NewKind::Fifo,
            Kind::Regular | Kind::Directory | Kind::HardLink(_) => NewKind::Regular,
        };
        self.fs.create(dir, name, kind, &self.attributes(member))
    }

    /// Writes the contents, with the holes where they were.
    fn fill(
        &mut self,
        inode: InodeNumber,
        member: &Member,
        mut contents: Contents<'_, '_>,
        told: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.buffer.resize(1 << 20, 0);
        let whole = [(0, member.stored_bytes)];
        let runs = member.runs.as_deref().unwrap_or(&whole);
        let mut end = 0;
        // An empty run says where the file ends, and no more than its size does.
        for (offset, len_bytes) in runs.iter().filter(|(_, len_bytes)| *len_bytes > 0) {
            let mut writer = FileWriter::new(self.fs, inode, *offset);
            let mut left = *len_bytes;
            while left > 0 {
                let len = usize::try_from(left).unwrap_or(usize::MAX);
                let len = len.min(self.buffer.len());
                let piece = &mut self.buffer[..len];
                contents.read_exact(piece)?;
                writer.put(piece)?;
                left -= len as u64;
                told(len as u64);
            }
            end = writer.position();
        }
        if end < member.size_bytes {
            self.fs.set_len(inode, member.size_bytes)?;
        }
        Ok(())
    }

    /// Attributes first, as ACLs change the mode, and all of them the times.
    fn set_attributes(&mut self, inode: InodeNumber, member: &Member) -> Result<()> {
        let kept = |name: &[u8]| member.xattrs.iter().any(|(kept, _)| kept == name);
        remove_inherited_acls(self.fs, inode, kept)?;
        for (name, value) in &member.xattrs {
            match self.fs.set_xattr(inode, name, value, SetXattr::Any) {
                Err(error) if is_about_the_attribute(error.kind()) => self.xattrs_ignored += 1,
                set => set?,
            }
        }
        let (uid, gid) = self.owner(member);
        let is_link = matches!(member.kind, Kind::Symlink(_));
        let modified = SetTime::At(member.modified);
        let change = SetMetadata {
            permissions: (!is_link).then_some(member.permissions),
            uid: Some(uid),
            gid: Some(gid),
            modified: Some(modified),
            accessed: Some(member.accessed.map_or(SetTime::Now, SetTime::At)),
            ..SetMetadata::default()
        };
        self.fs.set_metadata(inode, &change)
    }
}

/// Whether the file is none the worse but for the attribute.
const fn is_about_the_attribute(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::NoSpace | ErrorKind::NameTooLong
    )
}

/// A member's name as a path from the top, without `.` and doubled slashes.
fn plain_path(name: &[u8]) -> Result<Vec<u8>> {
    let refused = |reason: &'static str| Err(Error::new(ErrorKind::Denied, reason));
    if name.starts_with(b"/") {
        return refused("absolute name in the archive");
    }
    let mut path = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return refused("name in the archive goes up with `..`"),
            part => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
            }
        }
    }
    Ok(path)
}

/// The directory and the name in it; `None` for the top itself.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    Some(match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_top() {
        for (name, path) in [("./a//b/", "a/b"), ("a", "a"), ("./", ""), ("...", "...")] {
            assert_eq!(
                plain_path(name.as_bytes()).unwrap(),
                path.as_bytes(),
                "{name}"
            );
        }
        for name in ["/a", "a/../b", "..", "a/.."] {
            let error = plain_path(name.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{name}");
        }
        assert_eq!(split(b"a/b/c"), Some((&b"a/b"[..], &b"c"[..])));
        assert_eq!(split(b""), None);
    }
}
