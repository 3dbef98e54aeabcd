//! A layer: a tar archive that can be read several times.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_disk::{Error, ErrorKind, Result};

use crate::Archive;
use crate::background::{Background, Producer};
use crate::digest::{Digest, Verified};
use crate::unpack::Limited;

/// A tar archive that can be read several times: a file, or a part of one.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The name in errors: a path on the host, and the name of the member for a part of an archive.
    name: PathBuf,
    file: Arc<File>,
    offset: u64,
    stored_bytes: u64,
    digest: Option<Digest>,
    diff_id: Option<Digest>,
    is_of_image: bool,
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
    /// Opens a tar archive, plain or compressed (gzip, xz, zstd, lz4). A pipe is stored in an
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
    pub(crate) fn part(name: PathBuf, file: Arc<File>, offset: u64, stored_bytes: u64) -> Self {
        Self {
            name,
            file,
            offset,
            stored_bytes,
            digest: None,
            diff_id: None,
            is_of_image: false,
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
        self.stored_bytes
    }

    /// Returns true if whiteouts in this layer remove files of lower layers.
    pub(crate) fn is_of_image(&self) -> bool {
        self.is_of_image
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
        let range = Range::new(&self.file, self.offset, self.stored_bytes);
        let stored = Verified::new(range, digest, "layer");
        let stream = Background::start(move |to| produce(to, stored, diff_id, limit_bytes))?;
        Ok(Archive::new(Box::new(stream)))
    }

    /// Adds the name of the layer to an error.
    pub(crate) fn place(&self, error: Error) -> Error {
        error.in_file(&self.name)
    }
}

/// Decompresses a layer into a stream, and reads what may be left of the stored bytes. A wrong
/// digest is the reason for any other damage.
fn produce(
    to: &Producer,
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
    to: &Producer,
    stored: &mut Verified<Range>,
    diff_id: Option<Digest>,
    limit_bytes: u64,
) -> Result<bool> {
    let plain = Decoded(crate::decompressed(stored)?);
    let limited = Limited::new(plain, limit_bytes);
    to.send_all(&mut Verified::new(limited, diff_id, "decompressed layer"))
}

fn verify_rest(stored: &mut Verified<Range>) -> Result<()> {
    io::copy(stored, &mut io::sink())?;
    Ok(())
}

/// A reader of a decompressor: its own errors mean that the data is damaged.
struct Decoded<R>(R);

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(|error| {
            let is_ours = error
                .get_ref()
                .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Error>);
            if error.raw_os_error().is_some() || is_ours {
                return error;
            }
            let reason = format!("damaged compressed data: {error}");
            Error::new(ErrorKind::Corrupt, reason).into()
        })
    }
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
