//! Copying of a disk into a new image that is written to a stream, such as a pipe.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_block::{BlockRead, Error, ErrorKind, Result, WriteAt, check_cancelled};

use super::in_order::{InOrder, refuse_places};
use super::layout::GrainCopy;
use super::pieces::{PIECE_BYTES, Skipped};
use super::qcow2_stream::Qcow2Stream;
use super::sequential::{Form, SequentialCopy, Target, Units};
use super::target::{Progress, STREAM_BUFFER_BYTES, grain_stream};
use super::{ConvertOptions, Existing, Scope};
use crate::create::{
    NewImage, Preallocation, UnfinishedImage, VmdkSubformat, new_header, whole_sectors,
};
use crate::numbers::{to_u64, to_usize};

/// The start of the name of a file that is never given its name.
pub(super) const SPOOL_PREFIX: &str = ".diskfs-spool-";

impl ConvertOptions {
    /// Returns true if the image can be written to a pipe while it is made. Others state at their
    /// beginning what is known at their end.
    pub fn is_stream(&self) -> bool {
        match &self.image {
            NewImage::Raw => true,
            NewImage::Vmdk(new) => new.subformat == VmdkSubformat::StreamOptimized,
            NewImage::Qcow2(new) => {
                self.packing.is_none()
                    && self.bitmaps.is_none()
                    && self.scope == Scope::Whole
                    && new.encryption.is_none()
            }
            NewImage::Luks(_) | NewImage::Vhd(_) | NewImage::Vdi(_) | NewImage::Vhdx(_) => false,
        }
    }
}

/// Copies a disk into a new image that is written to `out` from its beginning to its end, holes as
/// zeroes; returns the number of bytes.
///
/// An image that is not a stream ([`ConvertOptions::is_stream`]) is first made in a file without a
/// name in the directory `spool`, which needs space for it. The image has the same bytes as the file
/// that [`convert`](super::convert()) makes, except for the name in the descriptor of a VMDK, which
/// is `disk.vmdk`, and for a qcow2 image without compression: that stores the zeroes that the source
/// stores.
///
/// # Errors
/// `Invalid` for options that need a file: a backing file, a data file, preallocation; the errors
/// of [`convert`](super::convert()) and of writing.
pub fn convert_to_stream(
    from: &dyn BlockRead,
    out: &mut (dyn Write + Send),
    spool: &Path,
    options: &ConvertOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    check(options)?;
    super::bitmaps::check(from, options)?;
    let mut counted = Counted { out, bytes: 0 };
    match &options.image {
        NewImage::Raw => raw(from, &mut counted, options, progress)?,
        NewImage::Vmdk(new) if options.is_stream() => {
            let out = BufWriter::with_capacity(STREAM_BUFFER_BYTES, &mut counted);
            let stream = grain_stream(from, Path::new(SPOOL_PREFIX), out, new, options)?;
            GrainCopy::new(from, options).run(stream, progress)?;
        }
        NewImage::Qcow2(new) if options.is_stream() => {
            let copy = Qcow2Stream {
                from,
                header: new_header(Path::new(SPOOL_PREFIX), new, from.size_bytes())?,
                threads: options.threads(),
            };
            let mut out = BufWriter::with_capacity(STREAM_BUFFER_BYTES, &mut counted);
            copy.run(&mut out, progress)?;
            out.flush()?;
        }
        _ => spooled(from, &mut counted, spool, options, progress)?,
    }
    counted.flush()?;
    Ok(counted.bytes)
}

fn check(options: &ConvertOptions) -> Result<()> {
    let what = match &options.image {
        NewImage::Qcow2(new) if new.backing.is_some() => "with a backing file",
        NewImage::Qcow2(new) if new.data_file.is_some() => "with a data file",
        _ if options.preallocation != Preallocation::Off => "with preallocation",
        NewImage::Raw if options.packing.is_some() => {
            return Err(Error::invalid(
                "compression is not supported for raw images",
            ));
        }
        _ => return Ok(()),
    };
    let reason = format!("an image {what} cannot be written to a stream");
    Err(Error::invalid(reason).with_hint("give the new image a name"))
}

/// Writes a raw image: all bytes of the disk.
fn raw(
    from: &dyn BlockRead,
    out: &mut (dyn Write + Send),
    options: &ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let size_bytes = whole_sectors(from.size_bytes())?;
    let copy = SequentialCopy {
        from,
        units: Units {
            unit_bytes: PIECE_BYTES,
            skipped: Skipped::None,
            omits_zeroes: true,
            is_padded: false,
        },
        new_packer: &|| Ok(None),
        write: &refuse_places,
        threads: options.threads(),
    };
    let mut stream = RawStream(InOrder::new(out));
    copy.run(&mut stream, progress)?;
    stream.0.pad_to(size_bytes)
}

/// A stream of the disk's bytes.
struct RawStream<'a>(InOrder<'a>);

impl Target for RawStream<'_> {
    fn add_zeroes(&mut self, offset: u64, len_bytes: u64, _: &mut WriteAt<'_>) -> Result<()> {
        self.0.pad_to(offset.saturating_add(len_bytes))
    }

    fn add(
        &mut self,
        offset: u64,
        bytes: &[u8],
        _: Form,
        _: &mut WriteAt<'_>,
    ) -> Result<Option<u64>> {
        self.0.write_at(offset, bytes)?;
        Ok(None)
    }
}

/// Makes the image in a file without a name, and copies that.
fn spooled(
    from: &dyn BlockRead,
    out: &mut dyn Write,
    spool: &Path,
    options: &ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let options = ConvertOptions {
        existing: Existing::Keep,
        ..options.clone()
    };
    let path = spool.join(format!("{SPOOL_PREFIX}{}", std::process::id()));
    let image = UnfinishedImage::converted(from, &path, &options, progress).map_err(|error| {
        let hint = "the image is stored there until it is complete; set TMPDIR to a directory with \
                    enough space";
        if error.kind() == ErrorKind::NoSpace {
            error.in_file(spool).with_hint(hint)
        } else {
            error
        }
    })?;
    let file = image.file();
    let len_bytes = file.metadata()?.len();
    let mut buffer = vec![0; to_usize(PIECE_BYTES)];
    let mut at = 0_u64;
    while at < len_bytes {
        let len = len_bytes.saturating_sub(at).min(PIECE_BYTES);
        let piece = buffer.get_mut(..to_usize(len)).unwrap_or_default();
        file.read_exact_at(piece, at)?;
        out.write_all(piece)?;
        at = at.saturating_add(len);
        check_cancelled(progress(0))?;
    }
    Ok(())
}

/// An output that counts its bytes.
struct Counted<'a> {
    out: &'a mut (dyn Write + Send),
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes = self.bytes.saturating_add(to_u64(written));
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
