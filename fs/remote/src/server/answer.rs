//! One request, one answer.

use std::sync::Arc;

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Metadata, NewKind, Result, SetMetadata};

use crate::protocol::{
    Attributes, Entry, Extent, Failure, Frame, Head, Kind, MAX_BULK, MAX_EXTENTS, MAX_LIST,
    MAX_OUTPUT, MAX_SUBVOLUME_PATH, MAX_TARGET, MAX_XATTR, MIN_APART, MountRequest, Mounted,
    Operation, Place, Program, Removed, Reply, Request, bulk_offset, is_name, is_signal,
    is_xattr_name,
};

use super::area::Aligned;
use super::filesystems::{Filesystems, MountedFs};
use super::machine::{Location, Machine, Served};
use super::programs::{Happened, Programs};

/// What a thread keeps between requests.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The message of the request.
    pub(super) message: Vec<u8>,
    /// What came behind it, at its beginning.
    pub(super) bulk: Aligned,
    out: Out,
    frame: Frame,
}

/// An answer in its form.
pub(super) struct Answer<'s> {
    pub(super) frame: &'s [u8],
    pub(super) bulk: &'s [u8],
}

/// What requests are about.
pub(super) struct State<'m> {
    pub(super) machine: &'m dyn Machine,
    pub(super) filesystems: Filesystems,
    pub(super) programs: Programs,
}

pub(super) fn answer<'s>(
    state: &State<'_>,
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
        .and_then(|()| state.act(request, bulk.get(head.bulk_len), out));
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
        // Its message is as short as that of any answer with contents.
        if frame.fill_apart(head.request, &reply, len).is_ok() {
            return Answer {
                frame: frame.bytes(),
                bulk: &[],
            };
        }
    }
    if frame.fill(head.request, &reply, len).is_err() {
        // Only what a filesystem says of itself could be so long.
        let error = Error::new(ErrorKind::Unsupported, "the answer is too long");
        let reply = Reply::Failed(Failure::new(&error));
        // This one is short.
        frame.fill(head.request, &reply, 0).ok();
    }
    Answer {
        frame: frame.bytes(),
        bulk: out.bytes(),
    }
}

impl State<'_> {
    /// Takes what belongs to a request out of the area, if it is there.
    fn take_apart(&self, head: &Head, bulk: &mut Aligned) -> Result<()> {
        if !head.is_apart {
            return Ok(());
        }
        let place = self.machine.area().zip(bulk_offset(head.request));
        let (area, offset) = place.ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "contents are where this machine can't look",
            )
        })?;
        let read = area.read(offset, bulk.padded_room(head.bulk_len));
        read.map_err(|error| Error::new(ErrorKind::Io, "contents can't be had").with_source(error))
    }

    /// Puts what goes behind an answer into the area, when there is one and it is worth it.
    fn put_apart(&self, request: u64, out: &Out) -> bool {
        let place = self.machine.area().zip(bulk_offset(request));
        let (Some((area, offset)), Some(contents)) = (place, out.contents()) else {
            return false;
        };
        // Else it goes through the stream.
        area.write(offset, contents).is_ok()
    }

    fn act(&self, request: Request<'_>, data: &[u8], out: &mut Out) -> Result<Reply<'static>> {
        let done = |()| Reply::Done;
        match request {
            Request::Mount(request) => mount(self.machine, &self.filesystems, &request),
            Request::Unmount { filesystem } => self.filesystems.unmount(filesystem).map(done),
            Request::ShutDown => {
                self.machine.end_programs();
                self.filesystems.unmount_all().map(done)
            }
            Request::In {
                filesystem,
                operation,
            } => {
                let mounted = self.filesystems.get(filesystem)?;
                let open = mounted.open();
                let call = Call {
                    mounted: &mounted,
                    fs: open.fs()?,
                };
                call.operate(&operation, data, out)
            }
            Request::Bind { from, to } => self
                .at(&from, |from| {
                    self.at(&to, |to| self.machine.bind(&from, &to))
                })
                .map(done),
            Request::Connect => self.machine.connect().map(done),
            Request::Start { root, program } => {
                check_program(&program)?;
                let start = || self.at(&root, |root| self.machine.start(&root, &program));
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
        }
    }

    /// Calls `then` with a place as the machine knows it. The filesystem is not unmounted meanwhile.
    fn at<T>(&self, place: &Place, then: impl FnOnce(Location<'_>) -> Result<T>) -> Result<T> {
        let mounted = self.filesystems.get(place.filesystem)?;
        let open = mounted.open();
        let mounted_at = open.fs()?.mounted_at().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "the filesystem is mounted nowhere")
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

    fn output(&self, program: u32, out: &mut Out) -> Result<Reply<'static>> {
        let running = self.programs.get(program)?;
        let mut happened = None;
        out.fill(MAX_OUTPUT, |room| {
            let what = running.output(room)?;
            happened = Some(what);
            Ok(match what {
                Happened::Wrote(_, len) => len,
                Happened::Ended(_) => 0,
            })
        })?;
        match happened {
            Some(Happened::Wrote(stream, _)) => Ok(Reply::Output { stream }),
            Some(Happened::Ended(ended)) => {
                self.programs.forget(program);
                Ok(Reply::Ended(ended))
            }
            None => Err(ErrorKind::Io.into()),
        }
    }
}

/// What no program can be given.
fn check_program(program: &Program) -> Result<()> {
    let is_bad = |word: &Vec<u8>| word.contains(&0);
    let mut words = program.words.iter().chain(&program.environment);
    let named = program.words.first().is_some_and(|name| !name.is_empty());
    if !named || words.any(is_bad) || program.directory.contains(&0) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "no program can be started so",
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

/// What goes behind an answer's message. The buffers are kept, for to clear a megabyte costs as much as to
/// read it.
#[derive(Debug, Default)]
struct Out {
    /// Entries, values, targets.
    text: Vec<u8>,
    /// Contents.
    contents: Aligned,
    /// Which of the two it is.
    is_contents: bool,
    len: usize,
}

impl Out {
    fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for so many bytes of contents, of which `fill` tells how many it took.
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

    /// Contents that are long enough for the area, as that takes them.
    fn contents(&self) -> Option<&[u8]> {
        let is_long = self.is_contents && self.len >= MIN_APART;
        is_long.then(|| self.contents.padded(self.len))
    }
}

/// A call of one filesystem.
struct Call<'f> {
    mounted: &'f MountedFs,
    fs: &'f dyn Served,
}

impl Call<'_> {
    /// What only reads is done here, the rest in [`change`](Self::change).
    fn operate(
        &self,
        operation: &Operation<'_>,
        data: &[u8],
        out: &mut Out,
    ) -> Result<Reply<'static>> {
        use Operation as O;
        let fs = self.fs;
        match *operation {
            O::Lookup { dir, name } => fs
                .find(InodeNumber(dir), name_of(name)?)
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
                fs.make(InodeNumber(dir), name_of(name)?, kind, &attributes.into())
                    .map(|metadata| file(&metadata))
            }
            O::CreateUnnamed {
                dir,
                file: attributes,
            } => {
                let inode = fs.create_unnamed(InodeNumber(dir), &attributes.into())?;
                self.mounted.keep(fs, inode)?;
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
            // Those that read, which were done.
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Lists as much as there is room for. What comes before an error is told first; who asks again
    /// behind it meets the error.
    fn list(&self, dir: InodeNumber, cookie: u64, out: &mut Out) -> Result<Reply<'static>> {
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
            bytes = postcard::to_extend(&entry, bytes)
                .map_err(|_| Error::new(ErrorKind::Io, "no memory for a directory's entries"))?;
            if bytes.len() >= MAX_LIST {
                ends = false;
                break;
            }
        }
        out.text = bytes;
        out.set_text_len();
        Ok(Reply::Entries { ends })
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

    /// Does what takes a name off the file that has it, and tells which one that was.
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
                self.mounted.keep(self.fs, inode)?;
            } else {
                self.fs.release(inode)?;
            }
        }
        let inode = inode.0;
        Ok((taken?, Some(Removed { inode, kept })))
    }
}

/// Whether a file has no name any more. A directory without one may count itself still.
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

fn check_kind(kind: Kind<'_>) -> Result<()> {
    match kind {
        Kind::Symlink(target) if target.len() >= MAX_TARGET => Err(ErrorKind::NameTooLong.into()),
        Kind::Symlink(target) if target.is_empty() || target.contains(&0) => {
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
            "an extended attribute is too large",
        ));
    }
    Ok(bytes)
}
