//! An image that arrives as a stream, such as standard input.

use std::fmt;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_block::{Error, ErrorKind, File, Result, check_cancelled};

use super::ConvertOptions;
use super::device::{SPARSE_BYTES, runs};
use super::pieces::PIECE_BYTES;
use super::target::Progress;
use crate::Format;
use crate::create::{NewImage, Preallocation, UnfinishedImage};
use crate::numbers::{to_u64, to_usize};
use crate::probe::{HEAD_BYTES, of_head};

/// The size of a sector: raw images consist of whole ones.
const SECTOR_BYTES: u64 = 512;

/// An image that arrives as a stream, of which only the beginning was read so far.
pub struct InputStream<'a> {
    input: Box<dyn Read + Send + 'a>,
    head: Vec<u8>,
    format: Format,
}

impl fmt::Debug for InputStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = &self.format;
        f.debug_struct("InputStream")
            .field("format", format)
            .finish_non_exhaustive()
    }
}

impl<'a> InputStream<'a> {
    /// Begins to read a stream. Its format is the given one; `None` probes it.
    ///
    /// # Errors
    /// `Corrupt` for an empty stream; `Unsupported` as for [`probe`](crate::probe::probe()); the
    /// errors of reading.
    pub fn new(input: impl Read + Send + 'a, format: Option<Format>) -> Result<Self> {
        let mut input: Box<dyn Read + Send + 'a> = Box::new(input);
        let mut head = Vec::new();
        let len = input
            .by_ref()
            .take(to_u64(HEAD_BYTES))
            .read_to_end(&mut head)?;
        if len == 0 {
            let reason = "the stream is empty";
            return Err(Error::corrupt(reason).with_hint("look for an error of its sender"));
        }
        let format = match format {
            Some(format) => format,
            None => of_head(&head)?,
        };
        Ok(Self {
            input,
            head,
            format,
        })
    }

    /// Returns the format.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns true if [`copy_raw`](Self::copy_raw) can make the image: the stream and the image
    /// are raw. For other formats, the size of the disk must be known first, or tables that follow
    /// the data.
    pub fn is_copyable(&self, options: &ConvertOptions) -> bool {
        self.format == Format::Raw
            && matches!(options.image, NewImage::Raw)
            && options.preallocation == Preallocation::Off
            && options.packing.is_none()
            && options.bitmaps.is_none()
    }

    /// Copies a raw stream into a new raw image; returns the size of the disk. The file appears under
    /// its name only when it is complete and durable.
    ///
    /// # Errors
    /// `Corrupt` if the stream ends within a sector; as for [`convert`](super::convert()).
    pub fn copy_raw(
        self,
        path: &Path,
        options: &ConvertOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        options.check_sparse()?;
        let new = UnfinishedImage::empty(path, options.existing)?;
        let size_bytes = self.copy_to(new.file(), options.sparse_bytes, progress)?;
        new.finish()?;
        Ok(size_bytes)
    }

    /// Stores the stream in a file without a name in this directory. Zeroes become holes.
    ///
    /// # Errors
    /// `Corrupt` if a raw stream ends within a sector; `NoSpace`; the errors of reading and writing.
    pub fn spool(
        self,
        directory: &Path,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<File> {
        let in_directory = |error: Error| match error.kind() {
            ErrorKind::NoSpace => error.in_file(directory).with_hint(
                "the stream is stored there first; set TMPDIR to a directory with enough space",
            ),
            _ => error,
        };
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(|error| Error::from(error).in_file(directory))?;
        self.copy_to(&file, Some(SPARSE_BYTES), progress)
            .map_err(in_directory)?;
        File::from_fd(file.into(), directory)
    }

    /// Copies the stream to an empty file, which gets its length; returns that.
    fn copy_to(
        self,
        file: &std::fs::File,
        sparse_bytes: Option<u64>,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        let is_raw = self.format == Format::Raw;
        let mut input = self.head.as_slice().chain(self.input);
        let mut buffer = Vec::new();
        let mut at = 0_u64;
        loop {
            buffer.clear();
            let len = input.by_ref().take(PIECE_BYTES).read_to_end(&mut buffer)?;
            if len == 0 {
                break;
            }
            let unit = to_usize(sparse_bytes.unwrap_or(SPARSE_BYTES));
            for run in runs(&buffer, unit) {
                if !run.is_zero || sparse_bytes.is_none() {
                    file.write_all_at(run.bytes, at)?;
                }
                at = at.saturating_add(to_u64(run.bytes.len()));
            }
            check_cancelled(progress(to_u64(len)))?;
        }
        if is_raw && at.rem_euclid(SECTOR_BYTES) != 0 {
            let reason = "the stream ends within a sector, so it is incomplete";
            let hint = "look for an error of its sender";
            return Err(Error::corrupt(reason).at(at).with_hint(hint));
        }
        file.set_len(at)?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::BlockRead;

    use super::*;

    fn go_on(_: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A stream whose sender fails after these bytes.
    struct Failing<'a>(&'a [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buf)? {
                0 => Err(std::io::Error::other("cut")),
                len => Ok(len),
            }
        }
    }

    #[test]
    fn a_raw_stream_becomes_a_file_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.raw");
        let raw = ConvertOptions {
            image: NewImage::Raw,
            ..ConvertOptions::default()
        };
        let mut bytes = vec![0; 3 << 20];
        bytes[70_000..80_000].fill(3);
        *bytes.last_mut().unwrap() = 1;
        for (cut, kind) in [
            (&bytes[..1_000_000], ErrorKind::Corrupt),
            (&bytes[..100], ErrorKind::Corrupt),
            (&bytes[..0], ErrorKind::Corrupt),
        ] {
            let copied = InputStream::new(cut, None);
            let copied = copied.and_then(|it| it.copy_raw(&path, &raw, &mut go_on));
            assert_eq!(copied.unwrap_err().kind(), kind);
            assert!(!path.exists());
        }
        let failing = InputStream::new(Failing(&bytes[..1 << 20]), None).unwrap();
        let error = failing.copy_raw(&path, &raw, &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(!path.exists());
        let stream = InputStream::new(bytes.as_slice(), None).unwrap();
        assert!(stream.is_copyable(&raw));
        let size = stream.copy_raw(&path, &raw, &mut go_on).unwrap();
        assert_eq!(size, 3 << 20);
        assert!(std::fs::read(&path).unwrap() == bytes);
    }

    #[test]
    fn the_given_format_is_not_probed() {
        let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
        bytes.resize(4096, 0);
        let stream = InputStream::new(bytes.as_slice(), None).unwrap();
        assert_eq!(stream.format(), Format::Qcow2);
        let stream = InputStream::new(bytes.as_slice(), Some(Format::Raw)).unwrap();
        assert_eq!(stream.format(), Format::Raw);
        let directory = tempfile::tempdir().unwrap();
        let file = stream.spool(directory.path(), &mut go_on).unwrap();
        assert_eq!(file.size_bytes(), 4096);
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
