//! The handling of a request and the encoding of its answer.

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Metadata, NewKind, Result, SetMetadata};

use crate::protocol::{
    Attributes, Entry, Extent, Failure, FileKind, Frame, Head, MAX_BULK, MAX_EXTENTS, MAX_LIST,
    MAX_OUTPUT, MAX_SUBVOLUME_PATH, MAX_TARGET, MAX_XATTR, MIN_APART, MountRequest, Mounted,
    Operation, Program, ProgramDir, Removed, Reply, Request, bulk_offset, decode_file_reads,
    is_name, is_signal, is_xattr_name,
};

use super::area::Aligned;
use super::filesystems::{Filesystems, MountedFs};
use super::machine::{Location, Machine, Served};
use super::programs::{ProgramEvent, Programs};

/// The buffers that a thread keeps between requests.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The message of the request.
    pub(super) message: Vec<u8>,
    /// The bulk of the request.
    pub(super) bulk: Aligned,
    out: AnswerBulk,
    frame: Frame,
}

/// An encoded answer.
pub(super) struct Answer<'s> {
    pub(super) frame: &'s [u8],
    pub(super) bulk: &'s [u8],
}

/// The state that requests share.
pub(super) struct ServerState<'m> {
    pub(super) machine: &'m dyn Machine,
    pub(super) filesystems: Filesystems,
    pub(super) programs: Programs,
    /// Locked while the machine ends its programs.
    pub(super) ending: Mutex<()>,
}

pub(super) fn answer<'s>(
    state: &ServerState<'_>,
    head: &Head,
    request: Request<'_>,
    scratch: &'s mut Scratch,
) -> Answer<'s> {
    let Scratch {
        bulk, out, frame, ..
    } = scratch;
    out.clear();
    let done = state
        .take_apart(head, bulk)
        .and_then(|()| state.execute(request, bulk.get(head.bulk_len), out));
    let len = if done.is_ok() { out.len } else { 0 };
    let error;
    let reply = match done {
        Ok(reply) => reply,
        Err(failed) => {
            error = failed;
            Reply::Failed(Failure::new(&error))
        }
    };
    if len > 0 && state.put_apart(head.request, out) {
        // The message is short, as in any answer with contents.
        if frame.fill_apart(head.request, &reply, len).is_ok() {
            return Answer {
                frame: frame.bytes(),
                bulk: &[],
            };
        }
    }
    if frame.fill(head.request, &reply, len).is_err() {
        // Only a filesystem's description of itself could be so long.
        let error = Error::new(ErrorKind::Unsupported, "answer is too long");
        let reply = Reply::Failed(Failure::new(&error));
        // This message is short, so encoding it can't fail.
        frame.fill(head.request, &reply, 0).ok();
    }
    Answer {
        frame: frame.bytes(),
        bulk: out.bytes(),
    }
}

impl ServerState<'_> {
    /// Copies the bulk of a request out of the area, if it is there.
    fn take_apart(&self, head: &Head, bulk: &mut Aligned) -> Result<()> {
        if !head.is_apart {
            return Ok(());
        }
        let place = self.machine.area().zip(bulk_offset(head.request));
        let (area, offset) = place.ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "request uses the area, which this machine does not have",
            )
        })?;
        let read = area.read(offset, bulk.padded_room(head.bulk_len));
        read.map_err(|error| {
            Error::new(ErrorKind::Io, "cannot read from the area").with_source(error)
        })
    }

    /// Copies the bulk of an answer into the area if that exists and the bulk is long enough.
    fn put_apart(&self, request: u64, out: &AnswerBulk) -> bool {
        let place = self.machine.area().zip(bulk_offset(request));
        let (Some((area, offset)), Some(contents)) = (place, out.contents()) else {
            return false;
        };
        // If that fails, the bulk goes through the stream.
        area.write(offset, contents).is_ok()
    }

    /// Ends all programs. A second caller waits for the first: while programs and their mounts are
    /// left, an unmounted filesystem still has changes that are not on its device.
    pub(super) fn end_programs(&self) {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        self.machine.end_programs();
    }

    fn execute(
        &self,
        request: Request<'_>,
        data: &[u8],
        out: &mut AnswerBulk,
    ) -> Result<Reply<'static>> {
        let done = |()| Reply::Done;
        match request {
            Request::Mount(request) => mount(self.machine, &self.filesystems, &request),
            Request::Unmount { filesystem } => self.filesystems.unmount(filesystem).map(done),
            Request::ShutDown => {
                self.end_programs();
                self.filesystems.unmount_all().map(done)
            }
            Request::In {
                filesystem,
                operation,
            } => {
                let mounted = self.filesystems.get(filesystem)?;
                let open = mounted.open();
                let call = FilesystemCall {
                    mounted: &mounted,
                    fs: open.fs()?,
                };
                call.operate(&operation, data, out)
            }
            Request::Bind { from, to } => self
                .with_location(&from, |from| {
                    self.with_location(&to, |to| self.machine.bind(&from, &to))
                })
                .map(done),
            Request::Connect => self.machine.connect().map(done),
            Request::Start { root, program } => {
                check_program(&program)?;
                let start =
                    || self.with_location(&root, |root| self.machine.start(&root, &program));
                let program = self.programs.add(start)?;
                Ok(Reply::Started { program })
            }
            Request::Input { program } => {
                let running = self.programs.get(program)?;
                if data.is_empty() {
                    return running.close_input().map(done);
                }
                let len = u32::try_from(running.input(data)?).unwrap_or(u32::MAX);
                Ok(Reply::Written { len })
            }
            Request::Output { program } => self.output(program, out),
            Request::Signal { program, signal } => {
                if !is_signal(signal) {
                    return Err(ErrorKind::Invalid.into());
                }
                self.programs.get(program)?.signal(signal).map(done)
            }
            Request::Resize { program, size } => self.programs.get(program)?.resize(size).map(done),
        }
    }

    /// Calls `then` with a place in the machine. The filesystem is not unmounted meanwhile.
    fn with_location<T>(
        &self,
        place: &ProgramDir,
        then: impl FnOnce(Location<'_>) -> Result<T>,
    ) -> Result<T> {
        let mounted = self.filesystems.get(place.filesystem)?;
        let open = mounted.open();
        let mounted_at = open.fs()?.mounted_at().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "the filesystem has no mount point")
        })?;
        if place.path.contains(&0) || place.root.contains(&0) {
            return Err(ErrorKind::Invalid.into());
        }
        then(Location {
            mounted_at,
            root: &place.root,
            path: &place.path,
        })
    }

    fn output(&self, program: u32, out: &mut AnswerBulk) -> Result<Reply<'static>> {
        let running = self.programs.get(program)?;
        let mut happened = None;
        out.fill(MAX_OUTPUT, |room| {
            let what = running.output(room)?;
            happened = Some(what);
            Ok(match what {
                ProgramEvent::Wrote(_, len) => len,
                ProgramEvent::Ended(_) => 0,
            })
        })?;
        match happened {
            Some(ProgramEvent::Wrote(stream, _)) => Ok(Reply::Output { stream }),
            Some(ProgramEvent::Ended(ended)) => {
                self.programs.forget(program);
                Ok(Reply::Ended(ended))
            }
            None => Err(ErrorKind::Io.into()),
        }
    }
}

/// Refuses arguments that no program can have.
fn check_program(program: &Program) -> Result<()> {
    let is_bad = |word: &Vec<u8>| word.contains(&0);
    let mut words = program.words.iter().chain(&program.environment);
    let named = program.words.first().is_some_and(|name| !name.is_empty());
    if !named || words.any(is_bad) || program.directory.contains(&0) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "invalid program: no name, or a NUL in a word, a variable or the directory",
        ));
    }
    Ok(())
}

fn mount(
    machine: &dyn Machine,
    filesystems: &Filesystems,
    request: &MountRequest,
) -> Result<Reply<'static>> {
    let fs = machine.mount(request)?;
    let taken_up = fs
        .metadata(fs.root())
        .and_then(|root| Ok((root, filesystems.add(Arc::clone(&fs))?)));
    match taken_up {
        Ok((root, number)) => Ok(Reply::Mounted(Mounted::new(
            number,
            Attributes::from(&root),
            fs.identity(),
        ))),
        Err(error) => {
            fs.close()?;
            Err(error)
        }
    }
}

/// The bulk of an answer. The buffers are reused, because clearing a megabyte costs as much as
/// reading it.
#[derive(Debug, Default)]
struct AnswerBulk {
    /// Entries, attribute values and symlink targets.
    text: Vec<u8>,
    /// The contents of files.
    contents: Aligned,
    /// True if the bulk is in `contents`.
    is_contents: bool,
    len: usize,
}

impl AnswerBulk {
    fn clear(&mut self) {
        self.len = 0;
    }

    /// Prepares a buffer of `len` bytes for contents. `fill` returns how many of them it has
    /// filled.
    fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<()> {
        self.is_contents = true;
        self.len = fill(self.contents.room(len))?.min(len);
        Ok(())
    }

    fn set(&mut self, bytes: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(bytes);
        self.set_text_len();
    }

    fn set_text_len(&mut self) {
        self.is_contents = false;
        self.len = self.text.len();
    }

    fn bytes(&self) -> &[u8] {
        if self.is_contents {
            return self.contents.get(self.len);
        }
        self.text.get(..self.len).unwrap_or_default()
    }

    /// Returns the contents, padded as the area requires, if they are long enough for it.
    fn contents(&self) -> Option<&[u8]> {
        let is_long = self.is_contents && self.len >= MIN_APART;
        is_long.then(|| self.contents.padded(self.len))
    }
}

/// A call of a mounted filesystem.
struct FilesystemCall<'f> {
    mounted: &'f MountedFs,
    fs: &'f dyn Served,
}

impl FilesystemCall<'_> {
    /// Executes a call. Operations that only read are here, the others in [`change`](Self::change).
    fn operate(
        &self,
        operation: &Operation<'_>,
        data: &[u8],
        out: &mut AnswerBulk,
    ) -> Result<Reply<'static>> {
        use Operation as O;
        let fs = self.fs;
        match *operation {
            O::Lookup { dir, name } => fs
                .lookup_metadata(InodeNumber(dir), name_of(name)?)
                .map(|metadata| file(&metadata)),
            O::Metadata { inode } => fs
                .metadata(InodeNumber(inode))
                .map(|metadata| file(&metadata)),
            O::List { dir, cookie } => self.list(InodeNumber(dir), cookie, out),
            O::Read { inode, offset, len } => {
                let len = usize::try_from(len).unwrap_or(MAX_BULK).min(MAX_BULK);
                out.fill(len, |room| fs.read_at(InodeNumber(inode), offset, room))?;
                Ok(Reply::Data)
            }
            O::ReadLink { inode } => {
                out.set(&fs.read_link(InodeNumber(inode))?);
                Ok(Reply::Data)
            }
            O::Xattr { inode, name } => {
                let Some(value) = fs.xattr(InodeNumber(inode), xattr_name(name)?)? else {
                    return Ok(Reply::Absent);
                };
                out.set(at_most(&value, MAX_XATTR)?);
                Ok(Reply::Data)
            }
            O::Subvolume { id } => {
                let path = fs.subvolume(id)?;
                if path.len() > MAX_SUBVOLUME_PATH {
                    return Err(ErrorKind::NameTooLong.into());
                }
                out.set(&path);
                Ok(Reply::Data)
            }
            O::ListXattrs { inode } => {
                let mut names = fs.list_xattrs(InodeNumber(inode))?;
                for name in &mut names {
                    name.push(0);
                }
                out.set(at_most(&names.concat(), MAX_XATTR)?);
                Ok(Reply::Data)
            }
            O::ReadFiles { files } => self.read_files(files, out),
            O::Statistics => Ok(Reply::Statistics(fs.statistics()?.into())),
            O::Extents { inode, offset } => self.extents(InodeNumber(inode), offset),
            _ => self.change(operation, data),
        }
    }

    fn change(&self, operation: &Operation<'_>, data: &[u8]) -> Result<Reply<'static>> {
        use Operation as O;
        let fs = self.fs;
        let done = |()| Reply::Done;
        match *operation {
            O::Create {
                dir,
                name,
                kind,
                file: attributes,
            } => {
                check_kind(kind)?;
                let kind = NewKind::from(kind);
                fs.create_with_metadata(InodeNumber(dir), name_of(name)?, kind, &attributes.into())
                    .map(|metadata| file(&metadata))
            }
            O::CreateUnnamed {
                dir,
                file: attributes,
            } => {
                let inode = fs.create_unnamed(InodeNumber(dir), &attributes.into())?;
                self.mounted.keep_file(fs, inode)?;
                fs.metadata(inode).map(|metadata| file(&metadata))
            }
            O::Link { inode, dir, name } => fs
                .link(InodeNumber(inode), InodeNumber(dir), name_of(name)?)
                .map(done),
            O::Unlink { dir, name, keep } => {
                let (dir, name) = (InodeNumber(dir), name_of(name)?);
                let ((), removed) = self.taking(dir, name, keep, || fs.unlink(dir, name))?;
                Ok(removed.map_or(Reply::Done, Reply::Removed))
            }
            O::Rmdir { dir, name, keep } => {
                let (dir, name) = (InodeNumber(dir), name_of(name)?);
                let ((), removed) = self.taking(dir, name, keep, || fs.rmdir(dir, name))?;
                Ok(removed.map_or(Reply::Done, Reply::Removed))
            }
            O::Rename {
                dir,
                name,
                to_dir,
                to_name,
                mode,
                keep,
            } => {
                let (from, to) = ((dir, name), (to_dir, to_name));
                self.rename(from, to, mode.into(), keep)
            }
            O::Write { inode, offset } => {
                let written = fs.write_at(InodeNumber(inode), offset, data)?;
                let len = u32::try_from(written).unwrap_or(u32::MAX);
                Ok(Reply::Written { len })
            }
            O::SetLen { inode, size_bytes } => {
                fs.set_len(InodeNumber(inode), size_bytes)?;
                fs.metadata(InodeNumber(inode))
                    .map(|metadata| file(&metadata))
            }
            O::Fallocate {
                inode,
                offset,
                len_bytes,
                what,
            } => fs
                .fallocate(InodeNumber(inode), offset, len_bytes, what.into())
                .map(done),
            O::SetMetadata { inode, change } => {
                let change = SetMetadata::try_from(change)
                    .map_err(|violation| Error::new(ErrorKind::Invalid, violation.0))?;
                fs.set_metadata(InodeNumber(inode), &change)?;
                fs.metadata(InodeNumber(inode))
                    .map(|metadata| file(&metadata))
            }
            O::SetXattr { inode, name, how } => fs
                .set_xattr(InodeNumber(inode), xattr_name(name)?, data, how.into())
                .map(done),
            O::RemoveXattr { inode, name } => fs
                .remove_xattr(InodeNumber(inode), xattr_name(name)?)
                .map(done),
            O::Release { inode } => self.mounted.release(fs, InodeNumber(inode)).map(done),
            O::SyncFile { inode, what } => fs.sync_file(InodeNumber(inode), what.into()).map(done),
            O::Sync => fs.sync().map(done),
            // The reading operations, which `operate` has handled.
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Lists as many entries as fit. Entries before an error are sent without it; the next request
    /// continues there and gets the error.
    fn list(&self, dir: InodeNumber, cookie: u64, out: &mut AnswerBulk) -> Result<Reply<'static>> {
        let mut bytes = std::mem::take(&mut out.text);
        bytes.clear();
        let mut ends = true;
        for listed in self.fs.list(dir, cookie)? {
            let (entry, metadata) = match listed {
                Ok(listed) => listed,
                Err(error) if bytes.is_empty() => return Err(error),
                Err(_) => {
                    ends = false;
                    break;
                }
            };
            let type_bits = entry.file_type.map_or(0, diskfs_vfs::FileType::mode_bits);
            let entry = Entry {
                name: &entry.name,
                inode: entry.inode.0,
                cookie: entry.cookie,
                type_bits,
                attributes: metadata.as_ref().map(Attributes::from),
            };
            bytes = postcard::to_extend(&entry, bytes).map_err(|_| {
                Error::new(
                    ErrorKind::Io,
                    "cannot allocate memory for directory entries",
                )
            })?;
            if bytes.len() >= MAX_LIST {
                ends = false;
                break;
            }
        }
        out.text = bytes;
        out.set_text_len();
        Ok(Reply::Entries { ends })
    }

    /// Reads the beginnings of several files.
    fn read_files(&self, files: &[u8], out: &mut AnswerBulk) -> Result<Reply<'static>> {
        let (files, total) = decode_file_reads(files)
            .map_err(|violation| Error::new(ErrorKind::Invalid, violation.0))?;
        for file in &files {
            let len_bytes = file.len.into();
            self.fs.will_need(InodeNumber(file.inode), 0, len_bytes);
        }
        let mut lens = Vec::with_capacity(files.len());
        out.fill(total, |room| {
            let mut filled = 0_usize;
            for file in &files {
                let len = usize::try_from(file.len).unwrap_or(usize::MAX);
                let room = room.get_mut(filled..).and_then(|rest| rest.get_mut(..len));
                let read = room.map(|room| self.fs.read_at(InodeNumber(file.inode), 0, room));
                let read = read.and_then(Result::ok);
                filled = filled.saturating_add(read.unwrap_or_default());
                lens.push(read.and_then(|read| u32::try_from(read).ok()));
            }
            Ok(filled)
        })?;
        Ok(Reply::Files { lens })
    }

    fn extents(&self, inode: InodeNumber, offset: u64) -> Result<Reply<'static>> {
        let mut extents = Vec::new();
        for extent in self.fs.extents_of(inode, offset)? {
            if extents.len() >= MAX_EXTENTS {
                return Ok(Reply::Extents {
                    extents,
                    ends: false,
                });
            }
            extents.push(Extent::from(extent?));
        }
        Ok(Reply::Extents {
            extents,
            ends: true,
        })
    }

    fn rename(
        &self,
        (dir, name): (u64, &[u8]),
        (to_dir, to_name): (u64, &[u8]),
        mode: diskfs_vfs::RenameMode,
        keep: bool,
    ) -> Result<Reply<'static>> {
        let (dir, to_dir) = (InodeNumber(dir), InodeNumber(to_dir));
        let (name, to_name) = (name_of(name)?, name_of(to_name)?);
        let rename = || {
            let moved = self.fs.lookup(dir, name)?;
            self.fs.rename(dir, name, to_dir, to_name, mode)?;
            Ok(moved)
        };
        let (moved, replaced) = self.taking(to_dir, to_name, keep, rename)?;
        Ok(Reply::Renamed {
            moved: moved.0,
            replaced,
        })
    }

    /// Executes an operation that removes a name. Returns which file lost it.
    fn taking<T>(
        &self,
        dir: InodeNumber,
        name: &[u8],
        keep: bool,
        take: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Option<Removed>)> {
        let _names = self.mounted.names();
        let inode = match self.fs.lookup(dir, name) {
            Ok(inode) => inode,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((take()?, None)),
            Err(error) => return Err(error),
        };
        if keep {
            self.fs.hold(inode);
        }
        let taken = take();
        let mut kept = false;
        if keep {
            kept = taken.is_ok() && self.fs.metadata(inode).is_ok_and(|file| is_gone(&file));
            if kept {
                self.mounted.keep_file(self.fs, inode)?;
            } else {
                self.fs.release(inode)?;
            }
        }
        let inode = inode.0;
        Ok((taken?, Some(Removed { inode, kept })))
    }
}

/// Returns true if a file has no name any more. The link count of a removed directory may still be
/// 1.
fn is_gone(file: &Metadata) -> bool {
    file.links == 0
}

fn file(metadata: &Metadata) -> Reply<'static> {
    Reply::File(Attributes::from(metadata))
}

fn name_of(name: &[u8]) -> Result<&[u8]> {
    if name.len() > crate::protocol::MAX_NAME {
        return Err(ErrorKind::NameTooLong.into());
    }
    if !is_name(name) {
        return Err(ErrorKind::Invalid.into());
    }
    Ok(name)
}

fn check_kind(kind: FileKind<'_>) -> Result<()> {
    match kind {
        FileKind::Symlink(target) if target.len() >= MAX_TARGET => {
            Err(ErrorKind::NameTooLong.into())
        }
        FileKind::Symlink(target) if target.is_empty() || target.contains(&0) => {
            Err(ErrorKind::Invalid.into())
        }
        _ => Ok(()),
    }
}

fn xattr_name(name: &[u8]) -> Result<&[u8]> {
    if !is_xattr_name(name) {
        return Err(ErrorKind::Invalid.into());
    }
    Ok(name)
}

fn at_most(bytes: &[u8], limit: usize) -> Result<&[u8]> {
    if bytes.len() > limit {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "extended attribute is too large",
        ));
    }
    Ok(bytes)
}
