//! Copying of the bitmaps of another image.

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{shift_right, to_usize};
use crate::qcow2::bitmap_bits::BitmapBits;
use crate::qcow2::bitmap_directory::BitmapEntry;
use crate::qcow2::bitmap_table::BitmapCluster;
use crate::qcow2::header::Header;
use crate::qcow2::write::bitmap_checks::{check_usable, unknown_kind};
use crate::qcow2::write::bitmap_edit::Edit;

/// The bitmaps of another image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BitmapSource<'a> {
    pub(crate) file: &'a dyn BlockRead,
    pub(crate) header: &'a Header,
    pub(crate) entries: &'a [BitmapEntry],
}

impl Edit<'_> {
    /// Fails if the bitmaps cannot be copied.
    pub(super) fn check_copy(&self, source: BitmapSource<'_>) -> Result<()> {
        self.check_sizes(source.header.size_bytes)?;
        let mut names = Vec::new();
        for entry in source.entries {
            let bitmap = &entry.bitmap;
            if !entry.is_understood {
                return Err(unknown_kind(&bitmap.name));
            }
            check_usable(source.header, entry)?;
            self.check_new(&bitmap.name, Some(bitmap.granularity_bytes))?;
            names.push(bitmap.name.as_str());
        }
        self.check_space(&names)?;
        names.sort_unstable();
        match names.array_windows().find(|[one, other]| one == other) {
            None => Ok(()),
            Some([name, _]) => {
                let name = name.escape_debug();
                let reason = format!("the source has two bitmaps with the name `{name}`");
                Err(Error::corrupt(reason))
            }
        }
    }

    /// Adds the bitmaps with their marks.
    pub(super) fn copy_all(&mut self, source: BitmapSource<'_>) -> Result<bool> {
        // Bitmaps don't share clusters, so there is no more to copy than the file has. Without this
        // limit, any number of bitmaps could point to the same clusters.
        let cluster_bits = source.header.geometry.cluster_bits();
        let mut left = shift_right(source.file.size_bytes(), cluster_bits);
        for entry in source.entries {
            let bits = BitmapBits::read(source.file, source.header, entry)?;
            left = left.checked_sub(bits.stored_clusters()).ok_or_else(|| {
                let reason = "the bitmaps refer to more clusters than the file has";
                Error::corrupt(reason).at(entry.at.0)
            })?;
            let clusters = self.copy_bits(source.file, &bits)?;
            let bitmap = &entry.bitmap;
            self.add(
                &bitmap.name,
                bitmap.granularity_bytes,
                bitmap.recording,
                &clusters,
            )?;
        }
        Ok(!source.entries.is_empty())
    }

    /// Writes the bits, in the clusters of this image; returns these.
    fn copy_bits(&mut self, file: &dyn BlockRead, bits: &BitmapBits) -> Result<Vec<BitmapCluster>> {
        let cluster_size = self.writer.geometry().cluster_size();
        let len_bytes = bits.len_bytes();
        let mut clusters = Vec::new();
        let mut bytes = vec![0; to_usize(cluster_size)];
        let mut at = 0;
        while at < len_bytes {
            let len = len_bytes.saturating_sub(at).min(cluster_size);
            bytes.truncate(to_usize(len));
            let is_stored = !bits.are_zeroes(at, len);
            if is_stored {
                bits.read_at(file, at, &mut bytes)?;
            }
            clusters.push(if !is_stored || is_zero(&bytes) {
                BitmapCluster::Zeroes
            } else if len == cluster_size && bytes.iter().all(|byte| *byte == 0xff) {
                // Only of a whole cluster: QEMU would also set the bits after the disk's end.
                BitmapCluster::Ones
            } else {
                BitmapCluster::Stored(self.write_new(&bytes)?)
            });
            at = at.saturating_add(len);
        }
        Ok(clusters)
    }
}
