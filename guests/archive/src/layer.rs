//! A layer: a tar archive that can be read several times.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_disk::{Error, ErrorKind, Result};

use crate::Archive;
use crate::archive::Input;
use crate::background::{Background, Producer};
use crate::digest::{Digest, Verified};
use crate::host::{HostFiles, HostOptions};
use crate::small_file::{self, SmallFile};
use crate::unpack::Limited;

/// The size of a read of headers. Larger contents are read directly.
const HEADER_BUFFER_BYTES: usize = 8 << 10;

/// The number of bytes that are packed before the reader gets them.
const PACK_BUFFER_BYTES: usize = 128 << 10;

/// The size of a read if large contents are skipped.
const SKIPPING_BUFFER_BYTES: usize = 64 << 10;

/// A tar archive that can be read several times: a file, a part of one, or files that are packed
/// while they are read.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The name in errors: a path on the host, and the name of the member for a part of an archive.
    name: PathBuf,
    stored: Stored,
    digest: Option<Digest>,
    diff_id: Option<Digest>,
    is_of_image: bool,
    /// The path in the tree of the layer's root directory.
    target: Vec<u8>,
}

/// The source of a layer's bytes.
#[derive(Debug, Clone)]
enum Stored {
    Range {
        file: Arc<File>,
        offset: u64,
        len_bytes: u64,
    },
    Host(HostFiles),
    Bytes(Arc<[u8]>),
}

/// The rules by which a layer's members are put into a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement<'a> {
    /// True if whiteouts remove files, and absolute names start at the root.
    pub(crate) is_of_image: bool,
    /// The path in the tree of the layer's root directory.
    pub(crate) target: &'a [u8],
    /// True if an existing target keeps its attributes.
    pub(crate) keeps_target: bool,
    /// True if the layer is one file, which is the target itself.
    pub(crate) is_file: bool,
}

/// The verification of a layer while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// The digest of the stored bytes and that of the decompressed bytes.
    Both,
    /// Only one of them: the other was compared before.
    One,
}

impl Layer {
    /// Opens a tar archive, plain or compressed (gzip, bzip2, xz, zstd, lz4). A pipe is stored in an
    /// unnamed temporary file first, because a layer is read twice.
    ///
    /// # Errors
    /// `Io`; `NoSpace` if a pipe contains more than `limit_bytes`.
    pub fn open(path: &Path, limit_bytes: u64) -> Result<Self> {
        let in_file = |error: io::Error| Error::from(error).in_file(path);
        let file = File::open(path).map_err(in_file)?;
        let metadata = file.metadata().map_err(in_file)?;
        if metadata.is_dir() {
            let error = Error::new(ErrorKind::IsADirectory, "is a directory, not an archive");
            return Err(error.in_file(path));
        }
        if !metadata.is_file() {
            return Self::from_stream(file, path, limit_bytes);
        }
        Ok(Self::part(
            path.to_owned(),
            Arc::new(file),
            0,
            metadata.len(),
        ))
    }

    /// Stores a stream in an unnamed file in the temporary directory, and returns it as a layer.
    /// `name` is its name in errors.
    ///
    /// # Errors
    /// `Io`; `NoSpace` if the stream has more than `limit_bytes`.
    pub fn from_stream(from: impl Read, name: &Path, limit_bytes: u64) -> Result<Self> {
        let (file, stored_bytes) = spool(from, limit_bytes).map_err(|error| error.in_file(name))?;
        Ok(Self::part(name.to_owned(), Arc::new(file), 0, stored_bytes))
    }

    /// Returns a layer that is a part of a file.
    /// Creates a layer of a directory of the host with everything below it, or of one file, which
    /// needs a target. They are packed while they are read, and nothing is stored. A directory that
    /// an earlier layer created at the target keeps its attributes.
    ///
    /// # Errors
    /// `NotFound` and the like, with the path.
    pub fn of_host(path: &Path, options: HostOptions) -> Result<Self> {
        std::fs::metadata(path).map_err(|error| Error::from(error).in_file(path))?;
        let files = HostFiles {
            path: path.to_owned(),
            options,
        };
        Ok(Self::stored(path.to_owned(), Stored::Host(files)))
    }

    /// Creates a layer of small files that the program makes itself.
    pub fn of_small_files(name: &Path, files: &[SmallFile]) -> Self {
        let bytes = Stored::Bytes(small_file::archive(files).into());
        Self::stored(name.to_owned(), bytes)
    }

    /// Puts the layer below a directory of the tree. The target of a single file of the host is the
    /// path of the file itself.
    #[must_use]
    pub fn below(self, target: &[u8]) -> Self {
        Self {
            target: target.to_vec(),
            ..self
        }
    }

    pub(crate) fn part(name: PathBuf, file: Arc<File>, offset: u64, stored_bytes: u64) -> Self {
        let stored = Stored::Range {
            file,
            offset,
            len_bytes: stored_bytes,
        };
        Self::stored(name, stored)
    }

    fn stored(name: PathBuf, stored: Stored) -> Self {
        Self {
            name,
            stored,
            digest: None,
            diff_id: None,
            is_of_image: false,
            target: Vec::new(),
        }
    }

    /// Returns the layer as one of an image: the digests of the stored and of the decompressed
    /// bytes are verified, and whiteouts remove files of lower layers.
    #[must_use]
    pub fn of_image(mut self, digest: Option<Digest>, diff_id: Option<Digest>) -> Self {
        self.digest = digest;
        self.diff_id = diff_id;
        self.is_of_image = true;
        self
    }

    /// Returns the name of the layer in errors.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the digest of the stored bytes, if it is known.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the digest of the decompressed bytes, if it is known.
    pub fn diff_id(&self) -> Option<&Digest> {
        self.diff_id.as_ref()
    }

    /// Returns the size of the layer in bytes, as it is stored.
    pub fn stored_bytes(&self) -> u64 {
        match &self.stored {
            Stored::Range { len_bytes, .. } => *len_bytes,
            Stored::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Stored::Host(_) => 0,
        }
    }

    pub(crate) fn placement(&self) -> Placement<'_> {
        let is_of_host = matches!(self.stored, Stored::Host(_));
        Placement {
            is_of_image: self.is_of_image,
            target: &self.target,
            keeps_target: is_of_host,
            is_file: is_of_host && !self.name.is_dir(),
        }
    }

    /// Returns the archive, which another thread decompresses. Reading fails after `limit_bytes` of
    /// decompressed data.
    ///
    /// # Errors
    /// `Io` if no thread can be started. The errors of the stream come while it is read.
    pub(crate) fn archive(&self, verify: Verify, limit_bytes: u64) -> Result<Archive<'static>> {
        let (digest, diff_id) = match (verify, self.digest) {
            (Verify::One, Some(digest)) => (Some(digest), None),
            _ => (self.digest, self.diff_id),
        };
        Ok(match &self.stored {
            Stored::Range {
                file,
                offset,
                len_bytes,
            } => {
                let range = Range::new(file, *offset, *len_bytes);
                // Only the headers of an archive that is stored as it is are of interest first.
                let is_verified = digest.is_some() || diff_id.is_some();
                if verify == Verify::Both
                    && !is_verified
                    && *len_bytes <= limit_bytes
                    && range.is_tar()?
                {
                    let range = BufReader::with_capacity(SKIPPING_BUFFER_BYTES, range);
                    return Ok(Archive::of(Box::new(range)));
                }
                let stored = Verified::new(range, digest, "layer");
                let produce = move |to: &mut Producer| produce(to, stored, diff_id, limit_bytes);
                Archive::of(Box::new(Background::start(produce)?))
            }
            Stored::Host(files) => {
                let files = files.clone();
                let stream = Background::start(move |to| pack(to, &files))?;
                let limited = Limited::new(stream, limit_bytes);
                // The stream has a buffer of its own.
                Archive::with_buffer(Box::new(limited), HEADER_BUFFER_BYTES)
            }
            Stored::Bytes(bytes) => {
                let bytes = Box::new(io::Cursor::new(Arc::clone(bytes)));
                Archive::with_buffer(bytes, HEADER_BUFFER_BYTES)
            }
        })
    }

    /// Adds the name of the layer to an error.
    pub(crate) fn place(&self, error: Error) -> Error {
        error.in_file(&self.name)
    }
}

/// Packs files of the host. Does nothing more if the receiver is gone.
fn pack(to: &mut Producer, files: &HostFiles) -> Result<()> {
    let mut writer = BufWriter::with_capacity(PACK_BUFFER_BYTES, to);
    let packed = files.pack(&mut writer);
    match packed.and_then(|()| Ok(writer.flush()?)) {
        Err(error) if error.is_broken_pipe() => Ok(()),
        packed => packed,
    }
}

/// Decompresses a layer into a stream, and reads what may be left of the stored bytes. A wrong
/// digest is the reason for any other damage.
fn produce(
    to: &mut Producer,
    mut stored: Verified<Range>,
    diff_id: Option<Digest>,
    limit_bytes: u64,
) -> Result<()> {
    match decompress(to, &mut stored, diff_id, limit_bytes) {
        Ok(true) => verify_rest(&mut stored),
        Ok(false) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            verify_rest(&mut stored).and(Err(error))
        }
        Err(error) => Err(error),
    }
}

/// Returns false if the receiver is gone.
fn decompress(
    to: &mut Producer,
    stored: &mut Verified<Range>,
    diff_id: Option<Digest>,
    limit_bytes: u64,
) -> Result<bool> {
    let limited = Limited::new(crate::decompressed(stored)?, limit_bytes);
    to.send_all(&mut Verified::new(limited, diff_id, "decompressed layer"))
}

fn verify_rest(stored: &mut Verified<Range>) -> Result<()> {
    io::copy(stored, &mut io::sink())?;
    Ok(())
}

/// A reader of a part of a file, which does not use the file's own position.
#[derive(Debug)]
pub(crate) struct Range {
    file: Arc<File>,
    position: u64,
    left: u64,
}

impl Range {
    pub(crate) fn new(file: &Arc<File>, offset: u64, len_bytes: u64) -> Self {
        Self {
            file: Arc::clone(file),
            position: offset,
            left: len_bytes,
        }
    }

    /// Returns true if the part is an archive that is not compressed.
    fn is_tar(&self) -> io::Result<bool> {
        /// The place of the magic in a header (POSIX.1-1988 and later, and GNU).
        const MAGIC: std::ops::Range<usize> = 257..262;
        let mut start = [0; MAGIC.end];
        let read = self.file.read_at(&mut start, self.position)?;
        let magic = start.get(..read).and_then(|start| start.get(MAGIC));
        Ok(magic == Some(b"ustar"))
    }
}

impl Input for BufReader<Range> {
    fn skip(&mut self, len_bytes: u64) -> io::Result<u64> {
        if !self.buffer().is_empty() {
            return Ok(0);
        }
        let range = self.get_mut();
        let skipped = len_bytes.min(range.left);
        range.position = range.position.saturating_add(skipped);
        range.left = range.left.saturating_sub(skipped);
        Ok(skipped)
    }
}

impl Read for Range {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX);
        let wanted = wanted.min(buf.len());
        let Some(buf) = buf.get_mut(..wanted).filter(|buf| !buf.is_empty()) else {
            return Ok(0);
        };
        let read = self.file.read_at(buf, self.position)?;
        if read == 0 {
            let error = Error::new(ErrorKind::Corrupt, "the file is shorter than it was");
            return Err(error.into());
        }
        let read_bytes = u64::try_from(read).unwrap_or(u64::MAX);
        self.position = self.position.saturating_add(read_bytes);
        self.left = self.left.saturating_sub(read_bytes);
        Ok(read)
    }
}

/// Copies a stream to an unnamed temporary file. Returns the file and its size.
pub(crate) fn spool(from: impl Read, limit_bytes: u64) -> Result<(File, u64)> {
    let of_temporary = |error: io::Error| {
        let error = Error::from(error).in_file(std::env::temp_dir());
        error.with_hint("set TMPDIR to a directory with enough space for the stream")
    };
    let mut file = tempfile::tempfile().map_err(of_temporary)?;
    let mut from = from.take(limit_bytes.saturating_add(1));
    let mut buffer = vec![0; 1 << 20];
    let mut size_bytes: u64 = 0;
    loop {
        let read = crate::unpack::read_up_to(&mut from, &mut buffer)?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
            return Ok((file, size_bytes));
        };
        size_bytes = size_bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        if size_bytes > limit_bytes {
            let reason = format!("the stream is too large, at most {limit_bytes} bytes");
            return Err(Error::new(ErrorKind::NoSpace, reason));
        }
        io::Write::write_all(&mut file, piece).map_err(of_temporary)?;
    }
}
