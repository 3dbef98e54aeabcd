//! Compressed raw disks: read in units, or decompressed into a temporary file first.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, File, ImageMap, MappedRun, Result, RunStorage};
use diskfs_compressed::{Codec, Compressed, DeviceReader};

use super::map_image::MapImage;
use crate::Format;
use crate::description::MappedDetails;
use crate::probe::head_of;
use crate::spool::Input;

/// The number of bytes to read at once from a file that is decompressed as a whole.
const PIECE_BYTES: usize = 1 << 20;

/// The largest disk that is decompressed as a whole. Zeroes compress to less than a thousandth, so
/// the time for a file is not limited by its length.
const DISK_MAX_BYTES: u64 = 4 << 40;

/// Opens a compressed disk. One that cannot be read at any place is decompressed as a whole.
pub(crate) fn open(file: Arc<dyn BlockRead>, path: &Path) -> Result<MapImage> {
    let head = head_of(file.as_ref())?;
    let codec = Codec::of(&head).ok_or_else(|| {
        Error::corrupt("the file is not compressed by gzip, bzip2, xz, zstd or lz4").at(0)
    })?;
    match Compressed::open(Arc::clone(&file), codec)? {
        Some(compressed) => Ok(in_units(compressed, file, codec)),
        None => as_a_whole(file, codec, path),
    }
}

/// Opens a disk whose units are decompressed when they are read.
fn in_units(compressed: Compressed, file: Arc<dyn BlockRead>, codec: Codec) -> MapImage {
    let details = MappedDetails {
        block_size_bytes: Some(compressed.largest_unit_bytes()),
        ..details(codec)
    };
    MapImage::new(Arc::new(compressed), file, details)
}

/// Decompresses a disk into a temporary file, and opens that.
fn as_a_whole(file: Arc<dyn BlockRead>, codec: Codec, path: &Path) -> Result<MapImage> {
    tracing::info!(path = %path.display(), "decompressing {codec} into a temporary file");
    let spooled = Arc::new(spool(file, codec)?);
    let flat = Flat(spooled.size_bytes());
    let mut image = MapImage::new(Arc::new(flat), spooled, details(codec));
    image.rules.asks_for_holes = true;
    image.warnings.push(format!(
        "was decompressed into a temporary file, as this {codec} can't be read in parts; to do it \
         only once, copy the image with `diskfs convert`"
    ));
    Ok(image)
}

fn details(codec: Codec) -> MappedDetails {
    MappedDetails {
        variant: Some(codec.name().to_owned()),
        ..MappedDetails::default()
    }
}

/// Refuses an image of another format that is compressed. Only raw disks are read compressed.
pub(crate) fn refuse_other_formats(probed: Result<Format>) -> Result<()> {
    let format = match probed {
        Ok(Format::Raw) => return Ok(()),
        Ok(format) => format.name(),
        Err(e) if e.kind() == ErrorKind::Unsupported => "image of another format",
        Err(e) => return Err(e),
    };
    let reason = format!("unsupported: a compressed {format}; only raw disks are read compressed");
    Err(Error::unsupported(reason).with_hint("decompress the file first"))
}

/// Decompresses a file into one without a name.
fn spool(file: Arc<dyn BlockRead>, codec: Codec) -> Result<File> {
    let packed = DeviceReader::new(file, PIECE_BYTES);
    let mut stored = 0_u64;
    let mut advance = |len| {
        stored = stored.saturating_add(len);
        if stored <= DISK_MAX_BYTES {
            return Ok(());
        }
        let reason = "unsupported: a compressed disk of more than 4 TiB";
        Err(Error::unsupported(reason).with_hint("decompress the file first"))
    };
    let unpacked = Input::decompressing(packed, codec)?;
    unpacked.store_unnamed(&tempfile::env::temp_dir(), &mut advance)
}

/// The map of a disk that is stored as it is, in one file.
#[derive(Debug)]
struct Flat(u64);

impl ImageMap for Flat {
    fn size_bytes(&self) -> u64 {
        self.0
    }

    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun> {
        Ok(MappedRun {
            len_bytes: self.0.saturating_sub(offset).min(max_len),
            storage: RunStorage::Stored { file: 0, offset },
        })
    }
}
