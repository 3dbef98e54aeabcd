//! Unpacking of members into a directory.

use std::io::{self, BufRead, Read};

use diskfs::archive::{Contents, Member, MemberKind};
use diskfs::vfs::edit::remove_inherited_acls;
use diskfs::vfs::{
    Error, ErrorKind, FileWriter, Follow, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind,
    Result, SetMetadata, SetTime, SetXattr, resolve_beneath,
};

use super::TarIn;
use crate::cli::target::new_file;

/// The largest block of a filesystem, and the size of a piece that is not in memory as a whole.
const PIECE_BYTES: usize = 64 << 10;

/// The reason why a member was not unpacked.
pub(super) enum Failure {
    /// The archive can't be read, and its next member can't be found.
    Archive(diskfs::Error),
    /// The image, or the member itself.
    Member(Error),
}

type Unpacked<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Member(error)
    }
}

fn of_archive(error: io::Error) -> Failure {
    Failure::Archive(error.into())
}

/// An unpacker of members below a directory.
pub(super) struct Unpacker<'a> {
    fs: &'a dyn FsWrite,
    /// The directory in which the archive is unpacked.
    top: InodeNumber,
    options: &'a TarIn,
    /// The directory of the last member, with its path: the next member is usually in the same one.
    last_dir: Option<(Vec<u8>, InodeNumber)>,
    /// The directories that were created. They get their attributes at the end: unpacking into them
    /// changes their times, and may need permissions that their modes do not grant.
    directories: Vec<(InodeNumber, Member)>,
    piece: Vec<u8>,
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
            piece: Vec::new(),
            xattrs_ignored: 0,
        }
    }

    /// Unpacks a member.
    pub(super) fn unpack(
        &mut self,
        member: Member,
        contents: Contents<'_, '_>,
        advance: &mut dyn FnMut(u64),
    ) -> Unpacked<()> {
        let name = member.name.clone();
        let unpacked = self.try_unpack(member, contents, advance);
        unpacked.map_err(|failure| match failure {
            Failure::Member(error) => Failure::Member(error.in_path(name)),
            failure @ Failure::Archive(_) => failure,
        })
    }

    fn try_unpack(
        &mut self,
        member: Member,
        contents: Contents<'_, '_>,
        advance: &mut dyn FnMut(u64),
    ) -> Unpacked<()> {
        let path = plain_path(&member.name)?;
        let Some((dir, name)) = split(&path) else {
            if member.kind == MemberKind::Directory {
                self.directories.push((self.top, member));
                return Ok(());
            }
            let reason = "cannot replace the directory in which the archive is unpacked";
            return Err(Error::new(ErrorKind::IsADirectory, reason).into());
        };
        let dir = self.directory(dir)?;
        if member.kind == MemberKind::Directory {
            let inode = self.make_directory(dir, name, &path, &member)?;
            self.directories.push((inode, member));
            return Ok(());
        }
        self.make_room(dir, name)?;
        if let MemberKind::HardLink(first) = &member.kind {
            let first = plain_path(first)?;
            let inode = resolve_beneath(self.fs, self.top, &first, Follow::AllButLast)?;
            return Ok(self.fs.link(inode, dir, name)?);
        }
        let inode = self.create(dir, name, &member)?;
        if member.kind == MemberKind::Regular {
            self.fill(inode, &member, contents, advance)?;
        }
        Ok(self.set_attributes(inode, &member)?)
    }

    /// Sets the attributes of directories, the innermost first. Returns the errors.
    pub(super) fn finish(&mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        while let Some((inode, member)) = self.directories.pop() {
            if let Err(error) = self.set_attributes(inode, &member) {
                errors.push(error.in_path(&member.name));
            }
        }
        errors
    }

    /// Returns the directory at `path`, and creates it with missing parents.
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

    /// Creates a directory of the archive. An existing directory is kept, even if it is reached
    /// through a symlink: in many guests `/lib` is a symlink, and must stay one.
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

    fn find_existing(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<Metadata>> {
        match self.fs.lookup(dir, name) {
            Ok(inode) => self.fs.metadata(inode).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes an existing file of the name, if the options allow it.
    fn make_room(&mut self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let Some(there) = self.find_existing(dir, name)? else {
            return Ok(());
        };
        if self.options.keep_old_files {
            return Err(ErrorKind::Exists.into());
        }
        if there.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        // The file may have been a symlink in the path of the last directory.
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
            MemberKind::Symlink(target) => NewKind::Symlink(target),
            MemberKind::CharacterDevice(device) => NewKind::CharacterDevice(*device),
            MemberKind::BlockDevice(device) => NewKind::BlockDevice(*device),
            MemberKind::Fifo => NewKind::Fifo,
            MemberKind::Regular | MemberKind::Directory | MemberKind::HardLink(_) => {
                NewKind::Regular
            }
        };
        self.fs.create(dir, name, kind, &self.attributes(member))
    }

    /// Writes the contents, and preserves holes.
    fn fill(
        &mut self,
        inode: InodeNumber,
        member: &Member,
        mut contents: Contents<'_, '_>,
        advance: &mut dyn FnMut(u64),
    ) -> Unpacked<()> {
        let whole = [(0, member.stored_bytes)];
        let runs = member.runs.as_deref().unwrap_or(&whole);
        let mut end = 0;
        // An empty run only marks the end of the file, which the size already gives.
        for (offset, len_bytes) in runs.iter().filter(|(_, len_bytes)| *len_bytes > 0) {
            let mut writer = FileWriter::new(self.fs, inode, *offset);
            let mut left = *len_bytes;
            while left > 0 {
                let len = self.write_piece(&mut writer, &mut contents, left)?;
                left -= len;
                advance(len);
            }
            end = writer.position();
        }
        if end < member.size_bytes {
            self.fs.set_len(inode, member.size_bytes)?;
        }
        Ok(())
    }

    /// Writes some of the next `left` bytes: those that are in memory, without a copy of them, or a
    /// piece. All pieces but the last are multiples of `PIECE_BYTES`, so that no block is written
    /// twice. Returns the number of bytes.
    fn write_piece(
        &mut self,
        writer: &mut FileWriter<'_>,
        contents: &mut Contents<'_, '_>,
        left: u64,
    ) -> Unpacked<u64> {
        let available = contents.fill_buf().map_err(of_archive)?;
        let rest = usize::try_from(left).unwrap_or(usize::MAX);
        let len = if available.len() >= rest {
            rest
        } else {
            available.len() - available.len() % PIECE_BYTES
        };
        if len > 0 {
            writer.write_all(&available[..len])?;
            contents.consume(len);
            return Ok(len as u64);
        }
        let len = rest.min(PIECE_BYTES);
        self.piece.clear();
        let read = contents.take(len as u64).read_to_end(&mut self.piece);
        if read.map_err(of_archive)? < len {
            let reason = "the map of the sparse file is longer than its contents";
            return Err(Error::new(ErrorKind::Corrupt, reason).into());
        }
        writer.write_all(&self.piece)?;
        Ok(len as u64)
    }

    /// Sets extended attributes first, because ACLs change the mode, and both change the times.
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
        let is_link = matches!(member.kind, MemberKind::Symlink(_));
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

/// Returns true if the error concerns only the attribute, and not the rest of the file.
const fn is_about_the_attribute(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::NoSpace | ErrorKind::NameTooLong
    )
}

/// Converts a member's name to a path from the top directory, without `.` and repeated slashes.
fn plain_path(name: &[u8]) -> Result<Vec<u8>> {
    let refused = |reason: &'static str| Err(Error::new(ErrorKind::Denied, reason));
    if name.starts_with(b"/") {
        return refused("refusing an absolute name in the archive");
    }
    let mut path = Vec::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return refused("refusing a name with `..` in the archive"),
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

/// Splits a path into the directory and the name in it, or returns `None` for the top directory
/// itself.
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
