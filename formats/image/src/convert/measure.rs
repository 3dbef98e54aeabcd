//! The size of a new image, before it is made.

use diskfs_block::{BlockRead, Error, Result};

use super::pieces::{Pieces, Skipped};
use crate::create::{NewImage, NewQcow2, fully_allocated_bytes, whole_sectors};

/// The size of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// The size with what the source stores, without compression: what `convert` needs at most.
    pub required_bytes: u64,
    /// The size with everything allocated.
    pub fully_allocated_bytes: u64,
}

/// Returns the size of the file that a disk needs as an image. Only the source's tables are read:
/// zeroes in its data count as data. The numbers are those of `qemu-img measure`.
///
/// # Errors
/// `Invalid` for options that cannot be combined; `Unsupported` for a format other than raw, LUKS and
/// qcow2; the errors of reading tables.
pub fn measure(from: &dyn BlockRead, image: &NewImage) -> Result<Measured> {
    let image = match image {
        NewImage::Qcow2(image) => image,
        NewImage::Raw => {
            let size_bytes = whole_sectors(from.size_bytes())?;
            return Ok(Measured {
                required_bytes: size_bytes,
                fully_allocated_bytes: size_bytes,
            });
        }
        NewImage::Luks(encryption) => {
            let size_bytes = whole_sectors(from.size_bytes())?;
            let file_bytes = size_bytes.checked_add(encryption.len_bytes());
            let file_bytes = file_bytes.ok_or_else(too_large)?;
            return Ok(Measured {
                required_bytes: file_bytes,
                fully_allocated_bytes: file_bytes,
            });
        }
        other => {
            let format = other.format();
            let reason = format!("measuring images of format {format} is not supported");
            return Err(Error::unsupported(reason));
        }
    };
    let mut stored = 0_u64;
    for piece in Pieces::new(from, image.cluster_size_bytes, Skipped::Zeroes) {
        let len_bytes = in_clusters(piece?.len_bytes, image)?;
        stored = stored.saturating_add(len_bytes);
    }
    let all = fully_allocated_bytes(image, from.size_bytes())?;
    let absent = in_clusters(from.size_bytes(), image)?.saturating_sub(stored);
    Ok(Measured {
        required_bytes: all.saturating_sub(absent),
        fully_allocated_bytes: all,
    })
}

fn in_clusters(len_bytes: u64, image: &NewQcow2) -> Result<u64> {
    let rounded = len_bytes.checked_next_multiple_of(image.cluster_size_bytes);
    rounded.ok_or_else(too_large)
}

fn too_large() -> Error {
    Error::invalid("the disk is too large")
}
