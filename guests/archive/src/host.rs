//! Files of the host as a layer: a directory with everything below it, or one file, packed as a tar
//! stream while it is read.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::{Device, Timestamp};
use rustix::fs::{SeekFrom, lgetxattr, llistxattr, seek};
use rustix::io::Errno;
use tar::EntryType;

use crate::pack::{BLOCK_BYTES, NewMember, pad};

/// The largest list of names of extended attributes, and the largest value (xattr(7)).
const XATTR_MAX_BYTES: usize = 64 << 10;

/// The largest number of runs of data of a file. A file with more is packed without holes.
const MAX_RUNS: usize = 1 << 20;

/// The options of a layer of the host's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// The user and the group of all files; `None` to keep those of the host.
    pub owner: Option<(u32, u32)>,
    /// The permission bits of a single file; `None` to keep those of the host.
    pub permissions: Option<u16>,
    /// The newest time of modification: newer times become this one.
    pub newest_time: Option<Timestamp>,
}

/// The files of the host below a path.
#[derive(Debug, Clone)]
pub(crate) struct HostFiles {
    pub(crate) path: PathBuf,
    pub(crate) options: HostOptions,
}

/// A packer of the host's files.
struct Packer<'a> {
    files: &'a HostFiles,
    out: &'a mut dyn Write,
    /// The first name of each file that has several, by device and inode.
    links: HashMap<(u64, u64), Vec<u8>>,
}

impl HostFiles {
    /// Writes all files as a tar stream, sorted by name in each directory.
    ///
    /// # Errors
    /// `Unsupported` for a socket; `Io`, with the path.
    pub(crate) fn pack(&self, out: &mut dyn Write) -> Result<()> {
        let mut packer = Packer {
            files: self,
            out,
            links: HashMap::new(),
        };
        let metadata = fs::metadata(&self.path).map_err(|e| at(e, &self.path))?;
        if !metadata.is_dir() {
            let member = NewMember {
                permissions: self.options.permissions.unwrap_or(permissions(&metadata)),
                ..packer.member(b"file", EntryType::Regular, &metadata)
            };
            return packer.pack_regular(&self.path, member, &metadata);
        }
        packer.pack_directories(&metadata)
    }
}

impl Packer<'_> {
    fn pack_directories(&mut self, root: &fs::Metadata) -> Result<()> {
        let root_path = self.files.path.clone();
        self.pack_plain(&root_path, self.member(b"./", EntryType::Directory, root))?;
        let mut directories = vec![(root_path, Vec::new())];
        while let Some((path, name)) = directories.pop() {
            let mut entries = fs::read_dir(&path)
                .and_then(Iterator::collect::<io::Result<Vec<_>>>)
                .map_err(|e| at(e, &path))?;
            entries.sort_by_key(fs::DirEntry::file_name);
            let mut below = Vec::new();
            for entry in entries {
                let name = [&name, entry.file_name().as_bytes()].concat();
                let metadata = entry.metadata().map_err(|e| at(e, &entry.path()))?;
                if metadata.is_dir() {
                    let name = [&name[..], b"/"].concat();
                    let member = self.member(&name, EntryType::Directory, &metadata);
                    self.pack_plain(&entry.path(), member)?;
                    below.push((entry.path(), name));
                } else {
                    self.pack_file(&entry.path(), &name, &metadata)?;
                }
            }
            // The last one is the next.
            directories.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn pack_file(&mut self, path: &Path, name: &[u8], metadata: &fs::Metadata) -> Result<()> {
        let id = (metadata.dev(), metadata.ino());
        if metadata.nlink() > 1 {
            if let Some(first) = self.links.get(&id) {
                let link = first.clone();
                let member = NewMember {
                    link,
                    ..self.member(name, EntryType::Link, metadata)
                };
                return self.write(&member.headers());
            }
            self.links.insert(id, name.to_vec());
        }
        let kind = metadata.file_type();
        if kind.is_file() {
            let member = self.member(name, EntryType::Regular, metadata);
            return self.pack_regular(path, member, metadata);
        }
        let mut member = self.member(name, EntryType::Fifo, metadata);
        if kind.is_symlink() {
            let target = fs::read_link(path).map_err(|e| at(e, path))?;
            member.kind = EntryType::Symlink;
            member.link = target.as_os_str().as_bytes().to_vec();
        } else if kind.is_char_device() || kind.is_block_device() {
            member.kind = if kind.is_char_device() {
                EntryType::Char
            } else {
                EntryType::Block
            };
            member.device = Some(Device {
                major: rustix::fs::major(metadata.rdev()),
                minor: rustix::fs::minor(metadata.rdev()),
            });
        } else if !kind.is_fifo() {
            let error = Error::new(ErrorKind::Unsupported, "sockets are not supported");
            return Err(error.in_file(path));
        }
        self.pack_plain(path, member)
    }

    /// Packs a member without contents.
    fn pack_plain(&mut self, path: &Path, mut member: NewMember) -> Result<()> {
        member.xattrs = xattrs(path)?;
        self.write(&member.headers())
    }

    fn pack_regular(
        &mut self,
        path: &Path,
        mut member: NewMember,
        metadata: &fs::Metadata,
    ) -> Result<()> {
        member.xattrs = xattrs(path)?;
        let file = File::open(path).map_err(|e| at(e, path))?;
        let size_bytes = metadata.len();
        let runs = runs(&file, metadata).map_err(|e| at(e, path))?;
        let mut map = Vec::new();
        if let Some(runs) = &runs {
            map = encoded(runs, size_bytes);
            member.sparse_bytes = Some(size_bytes);
        }
        let runs = runs.unwrap_or_else(|| vec![(0, size_bytes)]);
        let data_bytes = runs
            .iter()
            .fold(0_u64, |sum, (_, len)| sum.saturating_add(*len));
        let map_bytes = u64::try_from(map.len()).unwrap_or(u64::MAX);
        member.stored_bytes = data_bytes.saturating_add(map_bytes);
        self.write(&member.headers())?;
        self.write(&map)?;
        for (offset, len_bytes) in runs {
            seek(&file, SeekFrom::Start(offset)).map_err(|e| at(e.into(), path))?;
            let copied = io::copy(&mut (&file).take(len_bytes), &mut *self.out)?;
            if copied != len_bytes {
                let error = Error::new(ErrorKind::Io, "the file became shorter while it was read");
                return Err(error.in_file(path));
            }
        }
        let partial = data_bytes.checked_rem(BLOCK_BYTES).unwrap_or(0);
        let mut rest = vec![0; usize::try_from(partial).unwrap_or(0)];
        let filled = rest.len();
        pad(&mut rest);
        self.write(rest.get(filled..).unwrap_or_default())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.out.write_all(bytes)?)
    }

    fn member(&self, name: &[u8], kind: EntryType, metadata: &fs::Metadata) -> NewMember {
        let options = &self.files.options;
        let (uid, gid) = options.owner.unwrap_or((metadata.uid(), metadata.gid()));
        let modified = Timestamp {
            seconds: metadata.mtime(),
            nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        };
        NewMember {
            uid,
            gid,
            modified: options
                .newest_time
                .map_or(modified, |newest| modified.min(newest)),
            ..NewMember::new(name, kind, permissions(metadata))
        }
    }
}

fn permissions(metadata: &fs::Metadata) -> u16 {
    u16::try_from(metadata.mode() & 0o7777).unwrap_or(0)
}

fn at(error: io::Error, path: &Path) -> Error {
    Error::from(error).in_file(path)
}

/// Returns the runs of data of a file with holes: offset and length of each. `None` for a file
/// without holes.
fn runs(file: &File, metadata: &fs::Metadata) -> io::Result<Option<Vec<(u64, u64)>>> {
    let size_bytes = metadata.len();
    if metadata.blocks().saturating_mul(512) >= size_bytes {
        return Ok(None);
    }
    let mut runs = Vec::new();
    let mut at = 0;
    while at < size_bytes {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is only a hole up to the end (lseek(2)).
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(start))?.min(size_bytes);
        if start >= end || runs.len() >= MAX_RUNS {
            return Ok(None);
        }
        runs.push((start, end.saturating_sub(start)));
        at = end;
    }
    Ok(Some(runs))
}

/// Encodes the map of a file with holes: decimal numbers, one per line. If the file ends with a
/// hole, the last run is empty and at its end.
fn encoded(runs: &[(u64, u64)], size_bytes: u64) -> Vec<u8> {
    let end = runs
        .last()
        .map_or(0, |(offset, len)| offset.saturating_add(*len));
    let tail = (end < size_bytes).then_some((size_bytes, 0));
    let runs = runs.iter().copied().chain(tail);
    let mut numbers = vec![runs.clone().count().to_string()];
    numbers.extend(runs.flat_map(|(offset, len)| [offset.to_string(), len.to_string()]));
    numbers.push(String::new());
    let mut bytes = numbers.join("\n").into_bytes();
    pad(&mut bytes);
    bytes
}

/// Returns the extended attributes of a file that can be read. A filesystem without attributes has
/// none.
fn xattrs(path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = vec![0; XATTR_MAX_BYTES];
    let len = match llistxattr(path, &mut list) {
        Ok(len) => len,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(at(error.into(), path)),
    };
    let names = list.get(..len).unwrap_or_default().split(|byte| *byte == 0);
    let mut xattrs = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        let mut value = vec![0; XATTR_MAX_BYTES];
        match lgetxattr(path, OsStr::from_bytes(name), &mut value) {
            Ok(len) => {
                value.truncate(len);
                xattrs.push((name.to_vec(), value));
            }
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(at(error.into(), path)),
        }
    }
    xattrs.sort();
    Ok(xattrs)
}
