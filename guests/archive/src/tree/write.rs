//! Writing of a planned tree into a filesystem.

use std::io::Read;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::slice::Iter;

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::{
    self as vfs, FileWriter, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind, SetMetadata,
    SetTime, SetXattr, check_cancelled,
};

use super::attributes::{Attributes, CHANGED, metadata_of, new_kind};
use super::inode::Source;
use super::sealed::{Name, SealedFile};
use super::{Tree, WriteOptions, Written, finish};
use crate::layer::{Layer, Verify};
use crate::{Archive, Member, MemberKind};

/// The size of a write. A driver allocates the space of one write at once.
const BUFFER_BYTES: usize = 1 << 20;

type Progress<'p> = &'p mut dyn FnMut(u64) -> ControlFlow<()>;

impl Tree {
    /// Writes the tree into a filesystem, in the order of the archives: the same layers always make
    /// the same calls. Calls `progress` with the number of decompressed bytes of each step; the sum
    /// is [`stream_bytes`](Self::stream_bytes).
    ///
    /// The directory must not contain any name of the tree, except for directories. The times of
    /// the last change are set to those of the last modification. The filesystem is not synced.
    ///
    /// # Errors
    /// As [`Tree::plan`], and those of [`FsWrite`]. After an error, the caller must remove what was
    /// written, or abandon the filesystem.
    pub fn write_to(
        &self,
        fs: &dyn FsWrite,
        options: &WriteOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Written> {
        let mut writer = Writer::new(self, fs, *options);
        let root = fs.metadata(options.into.unwrap_or_else(|| fs.root()))?;
        let mut left = self.limits.unpacked_bytes;
        for ((layer, index), size_bytes) in self.layers.iter().zip(0..).zip(&self.layer_bytes) {
            if self.sealed.uses_layer(index) {
                let written = writer.write_layer(layer, index, left, progress);
                written.map_err(|error| layer.place(error))?;
            }
            left = left.saturating_sub(*size_bytes);
        }
        writer.finish()?;
        writer.keep_root_times(&root)?;
        Ok(writer.written)
    }
}

/// A writer of a tree.
struct Writer<'t> {
    tree: &'t Tree,
    fs: &'t dyn FsWrite,
    options: WriteOptions,
    /// The files, names and directories of the next members.
    files: Peekable<Iter<'t, SealedFile>>,
    names: Peekable<Iter<'t, Name>>,
    directory_members: Peekable<Iter<'t, (Source, u32)>>,
    /// The directories of the filesystem, as far as they exist.
    directories: Vec<Option<InodeNumber>>,
    /// The attributes of directories, which are set at the end: the files in a directory change its
    /// times, and inherit from it.
    attributes: Vec<(u32, Attributes)>,
    buffer: Vec<u8>,
    written: Written,
}

impl<'t> Writer<'t> {
    fn new(tree: &'t Tree, fs: &'t dyn FsWrite, options: WriteOptions) -> Self {
        let mut directories = vec![None; tree.sealed.directories.len()];
        if let Some(root) = directories.first_mut() {
            *root = Some(options.into.unwrap_or_else(|| fs.root()));
        }
        Self {
            tree,
            fs,
            options,
            files: tree.sealed.files.iter().peekable(),
            names: tree.sealed.names.iter().peekable(),
            directory_members: tree.sealed.directory_members.iter().peekable(),
            directories,
            attributes: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            written: Written::default(),
        }
    }

    fn write_layer(
        &mut self,
        layer: &Layer,
        index: u16,
        limit_bytes: u64,
        progress: Progress<'_>,
    ) -> Result<()> {
        let mut archive = layer.archive(Verify::One, limit_bytes)?;
        let written = self.write_members(&mut archive, index, progress);
        finish(&mut archive, written)?;
        let is_of_later = |next: Option<Source>| next.is_none_or(|next| next.layer > index);
        let file = self.files.peek().map(|file| file.source);
        let directory = self.directory_members.peek().map(|(source, _)| *source);
        if !is_of_later(file) || !is_of_later(directory) {
            return Err(changed());
        }
        Ok(())
    }

    fn write_members(
        &mut self,
        archive: &mut Archive<'_>,
        layer: u16,
        progress: Progress<'_>,
    ) -> Result<()> {
        let mut source = Source { layer, member: 0 };
        let mut reported = 0;
        while let Some(member) = archive.next()? {
            check_cancelled(progress(archive.position().saturating_sub(reported)))?;
            self.write_member(archive, member, source, progress)?;
            archive.skip(progress)?;
            reported = archive.position();
            source.member = source.member.saturating_add(1);
        }
        Ok(())
    }

    /// Writes a member, if it is in the final tree.
    fn write_member(
        &mut self,
        archive: &mut Archive<'_>,
        member: Member,
        source: Source,
        progress: Progress<'_>,
    ) -> Result<()> {
        let in_member =
            |error: vfs::Error, member: &Member| Error::from(error.in_path(&member.name));
        if let Some((_, directory)) = self.directory_members.next_if(|next| next.0 == source) {
            if member.kind != MemberKind::Directory {
                return Err(changed());
            }
            let made = self.directory(*directory);
            made.map_err(|error| in_member(error, &member))?;
            let attributes = Attributes::new(member);
            self.attributes.push((*directory, attributes));
        } else if let Some(file) = self.files.next_if(|next| next.source == source) {
            let written = self.write_file(archive, &member, file, progress);
            written.map_err(|error| in_member(error, &member))?;
        }
        Ok(())
    }

    /// Creates a file with all its names, contents and attributes.
    fn write_file(
        &mut self,
        archive: &mut Archive<'_>,
        member: &Member,
        file: &SealedFile,
        progress: Progress<'_>,
    ) -> vfs::Result<()> {
        let is_same = |next: &&Name| next.source == file.source;
        let Some(first) = self.names.next_if(is_same) else {
            return Ok(());
        };
        let kind = new_kind(member, file)?;
        let directory = self.directory(first.directory)?;
        let attributes = NewAttributes {
            permissions: member.permissions,
            umask: 0,
            uid: member.uid,
            gid: member.gid,
        };
        let created = self.fs.create(directory, &first.bytes, kind, &attributes);
        let inode = created.map_err(hint_for_existing)?;
        self.count(kind);
        while let Some(name) = self.names.next_if(is_same) {
            let directory = self.directory(name.directory)?;
            let linked = self.fs.link(inode, directory, &name.bytes);
            linked.map_err(hint_for_existing)?;
            self.written.hard_links = self.written.hard_links.saturating_add(1);
        }
        if kind == NewKind::Regular {
            self.write_contents(inode, archive, member, progress)?;
        }
        self.set_xattrs(inode, &member.xattrs)?;
        self.fs.set_metadata(inode, &metadata_of(member))
    }

    /// Writes the contents of a regular file, and keeps its holes.
    fn write_contents(
        &mut self,
        inode: InodeNumber,
        archive: &mut Archive<'_>,
        member: &Member,
        progress: Progress<'_>,
    ) -> vfs::Result<()> {
        let whole = [(0, member.size_bytes)];
        let runs = member.runs.as_deref().unwrap_or(&whole);
        let mut contents = archive.contents();
        let mut end = 0;
        // An empty run only marks the end of the file, which the size already gives.
        for (offset, len_bytes) in runs.iter().filter(|(_, len_bytes)| *len_bytes > 0) {
            let mut writer = FileWriter::new(self.fs, inode, *offset);
            let mut left = *len_bytes;
            while left > 0 {
                let wanted = usize::try_from(left).unwrap_or(usize::MAX);
                let wanted = wanted.min(self.buffer.len());
                let piece = self.buffer.get_mut(..wanted).unwrap_or_default();
                contents.read_exact(piece)?;
                writer.write_all(piece)?;
                let piece_bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                left = left.saturating_sub(piece_bytes);
                self.written.content_bytes = self.written.content_bytes.saturating_add(piece_bytes);
                check_cancelled(progress(piece_bytes))?;
            }
            end = writer.position();
        }
        if end < member.size_bytes {
            self.fs.set_len(inode, member.size_bytes)?;
        }
        Ok(())
    }

    /// Returns a directory of the tree, and creates it with its parents if necessary.
    fn directory(&mut self, index: u32) -> vfs::Result<InodeNumber> {
        let mut missing = Vec::new();
        let mut at = index;
        let mut inode = loop {
            if let Some(inode) = self.known(at) {
                break inode;
            }
            let Some(directory) = self.sealed_directory(at) else {
                return Err(vfs::ErrorKind::NotFound.into());
            };
            missing.push(at);
            at = directory.parent;
        };
        while let Some(index) = missing.pop() {
            inode = self.make_directory(inode, index)?;
        }
        Ok(inode)
    }

    fn make_directory(&mut self, parent: InodeNumber, index: u32) -> vfs::Result<InodeNumber> {
        let Some(directory) = self.sealed_directory(index) else {
            return Err(vfs::ErrorKind::NotFound.into());
        };
        let attributes = NewAttributes::for_root(0o755);
        let created = self
            .fs
            .create(parent, &directory.name, NewKind::Directory, &attributes);
        let inode = match created {
            Err(error) if error.kind() == vfs::ErrorKind::Exists => {
                let existing = self.fs.lookup(parent, &directory.name)?;
                if !self.fs.metadata(existing)?.is_dir() {
                    return Err(hint_for_existing(error));
                }
                existing
            }
            created => {
                self.count(NewKind::Directory);
                created?
            }
        };
        let slot = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(slot) = self.directories.get_mut(slot) {
            *slot = Some(inode);
        }
        if !directory.has_member {
            let attributes = Attributes::without_member(directory.modified);
            self.attributes.push((index, attributes));
        }
        Ok(inode)
    }

    fn known(&self, index: u32) -> Option<InodeNumber> {
        *self.directories.get(usize::try_from(index).ok()?)?
    }

    fn sealed_directory(&self, index: u32) -> Option<&'t super::sealed::SealedDirectory> {
        self.tree
            .sealed
            .directories
            .get(usize::try_from(index).ok()?)
    }

    /// Creates the directories in which no file is, and sets the attributes of all.
    fn finish(&mut self) -> Result<()> {
        for index in (0..).take(self.directories.len()) {
            self.directory(index)?;
        }
        for (index, attributes) in std::mem::take(&mut self.attributes) {
            let Some(inode) = self.known(index) else {
                continue;
            };
            let set = self.set_xattrs(inode, &attributes.xattrs);
            let set = set.and_then(|()| self.fs.set_metadata(inode, &attributes.metadata));
            set.map_err(|error| error.in_path(self.path(index)))?;
        }
        Ok(())
    }

    /// Restores the times of the root directory, if the archives have no member for it: they would
    /// be those of the unpacking.
    fn keep_root_times(&self, before: &Metadata) -> Result<()> {
        if self.sealed_directory(0).is_some_and(|root| root.has_member) {
            return Ok(());
        }
        let times = SetMetadata {
            accessed: Some(SetTime::At(before.accessed)),
            modified: Some(SetTime::At(before.modified)),
            changed: Some(SetTime::At(before.changed)),
            ..SetMetadata::default()
        };
        Ok(self.fs.set_metadata(before.inode, &times)?)
    }

    /// Returns the path of a directory, for errors.
    fn path(&self, index: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = index;
        while let Some(directory) = self.sealed_directory(at).filter(|_| at > 0) {
            names.push(&*directory.name);
            at = directory.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    fn set_xattrs(&mut self, inode: InodeNumber, xattrs: &[(Vec<u8>, Vec<u8>)]) -> vfs::Result<()> {
        for (name, value) in xattrs {
            match self.fs.set_xattr(inode, name, value, SetXattr::Any) {
                Err(error) if self.options.skip_refused_xattrs && is_refusal(error.kind()) => {
                    self.written.skipped_xattrs = self.written.skipped_xattrs.saturating_add(1);
                }
                set => set?,
            }
        }
        Ok(())
    }

    fn count(&mut self, kind: NewKind<'_>) {
        let count = match kind {
            NewKind::Regular => &mut self.written.regular_files,
            NewKind::Directory => &mut self.written.directories,
            NewKind::Symlink(_) => &mut self.written.symlinks,
            _ => &mut self.written.special_files,
        };
        *count = count.saturating_add(1);
    }
}

/// Returns true if the error concerns only the attribute, and not the rest of the file.
const fn is_refusal(kind: vfs::ErrorKind) -> bool {
    use vfs::ErrorKind as K;
    matches!(
        kind,
        K::Unsupported | K::Invalid | K::NotPermitted | K::NameTooLong
    )
}

fn changed() -> Error {
    Error::new(ErrorKind::Io, CHANGED)
}

fn hint_for_existing(error: vfs::Error) -> vfs::Error {
    if error.kind() == vfs::ErrorKind::Exists {
        return error.with_hint("unpack into an empty directory");
    }
    error
}
