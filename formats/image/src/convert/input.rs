//! An image that arrives as a stream, such as standard input.

use std::fmt;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{BlockRead, Error, File, Result, check_cancelled};
use diskfs_compressed::Codec;

use super::ConvertOptions;
use crate::Format;
use crate::create::{NewImage, Preallocation, UnfinishedImage};
use crate::mapped::refuse_other_formats;
use crate::numbers::to_u64;
use crate::probe::{HEAD_BYTES, of_head};
use crate::spool::Input;

/// The size of a sector: raw images consist of whole ones.
const SECTOR_BYTES: u64 = 512;

/// An image that arrives as a stream, of which only the beginning was read so far.
pub struct InputStream<'a> {
    input: Input<'a>,
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
    /// Begins to read a stream. Its format is the given one; `None` probes it. A stream that is
    /// compressed by gzip, bzip2, xz, zstd or LZ4 is decompressed, unless another format is given;
    /// it must contain a raw disk.
    ///
    /// # Errors
    /// `Corrupt` for an empty stream and for damaged compressed data; `Unsupported` as for
    /// [`probe`](crate::probe::probe()), and for another format that is compressed; the errors of
    /// reading.
    pub fn new(input: impl Read + 'a, format: Option<Format>) -> Result<Self> {
        let (head, input) = head_of(Input::new(input))?;
        if head.is_empty() {
            let reason = "the stream is empty";
            return Err(Error::corrupt(reason).with_hint("look for an error of its sender"));
        }
        let format = match (format, Codec::of(&head)) {
            (None | Some(Format::Compressed), Some(codec)) => {
                let packed = BufReader::new(input.into_read());
                let (head, input) = head_of(Input::decompressing(packed, codec)?)?;
                refuse_other_formats(of_head(&head))?;
                let format = Format::Raw;
                return Ok(Self { input, format });
            }
            (Some(Format::Compressed), None) => {
                let reason = "the stream is not compressed by gzip, bzip2, xz, zstd or lz4";
                return Err(Error::corrupt(reason).at(0));
            }
            (Some(format), _) => format,
            (None, None) => of_head(&head)?,
        };
        Ok(Self { input, format })
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
        let mut advance = |len| check_cancelled(progress(len));
        let stored = self
            .input
            .store(new.file(), options.sparse_bytes, &mut advance);
        let size_bytes = stored?;
        check_sectors(true, size_bytes)?;
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
        let is_raw = self.format == Format::Raw;
        let mut advance = |len| check_cancelled(progress(len));
        let file = self.input.store_unnamed(directory, &mut advance)?;
        check_sectors(is_raw, file.size_bytes())?;
        Ok(file)
    }
}

/// Checks that a raw disk consists of whole sectors.
fn check_sectors(is_raw: bool, size_bytes: u64) -> Result<()> {
    if !is_raw || size_bytes.is_multiple_of(SECTOR_BYTES) {
        return Ok(());
    }
    let reason = "the stream ends within a sector, so it is incomplete";
    let hint = "look for an error of its sender";
    Err(Error::corrupt(reason).at(size_bytes).with_hint(hint))
}

/// Reads the first bytes of a stream; returns them, and the whole stream.
fn head_of(mut input: Input<'_>) -> Result<(Vec<u8>, Input<'_>)> {
    let mut head = Vec::new();
    input.read(to_u64(HEAD_BYTES), &mut head)?;
    let input = input.after(head.clone());
    Ok((head, input))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use diskfs_block::ErrorKind;

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
    fn a_compressed_stream_is_a_raw_disk() {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = vec![0; 2 << 20];
        bytes[70_000..80_000].fill(3);
        let gzip = |bytes: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(bytes).unwrap();
            gzip.finish().unwrap()
        };
        let packed = gzip(&bytes);
        let stream = InputStream::new(packed.as_slice(), None).unwrap();
        assert_eq!(stream.format(), Format::Raw);
        let file = stream.spool(directory.path(), &mut go_on).unwrap();
        let mut read = vec![1; bytes.len()];
        file.read_at(0, &mut read).unwrap();
        assert!(read == bytes);
        let cut = InputStream::new(&packed[..packed.len() / 2], None).unwrap();
        let error = cut.spool(directory.path(), &mut go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        // As it is, if its format is given.
        let packed = packed.repeat(512);
        let stream = InputStream::new(packed.as_slice(), Some(Format::Raw)).unwrap();
        let file = stream.spool(directory.path(), &mut go_on).unwrap();
        assert_eq!(file.size_bytes(), packed.len() as u64);
        let other = gzip(b"QFI\xfb\0\0\0\x03");
        let error = InputStream::new(other.as_slice(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let plain = InputStream::new(&bytes[..], Some(Format::Compressed));
        assert_eq!(plain.unwrap_err().kind(), ErrorKind::Corrupt);
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
