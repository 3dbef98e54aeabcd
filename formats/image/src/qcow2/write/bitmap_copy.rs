//! Copying of the bitmaps of another image.

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_directory::BitmapEntry;
use crate::qcow2::bitmap_table::{self, BitmapCluster};
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

/// The bits of one bitmap of another image.
struct Bits<'a> {
    file: &'a dyn BlockRead,
    /// The cluster size as a power of two.
    cluster_order: u32,
    clusters: Vec<BitmapCluster>,
    /// The number of bits.
    count: u64,
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
            let bits = Bits::read(source, entry)?;
            left = left.checked_sub(bits.stored_clusters()).ok_or_else(|| {
                let reason = "the bitmaps refer to more clusters than the file has";
                Error::corrupt(reason).at(entry.at.0)
            })?;
            let clusters = self.copy_bits(&bits)?;
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
    fn copy_bits(&mut self, bits: &Bits<'_>) -> Result<Vec<BitmapCluster>> {
        let cluster_size = self.writer.geometry().cluster_size();
        let len_bytes = bits.count.div_ceil(8);
        let mut clusters = Vec::new();
        let mut bytes = vec![0; to_usize(cluster_size)];
        let mut at = 0;
        while at < len_bytes {
            let len = len_bytes.saturating_sub(at).min(cluster_size);
            bytes.truncate(to_usize(len));
            let is_stored = !bits.are_zeroes(at, len);
            if is_stored {
                bits.read_at(at, &mut bytes)?;
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

impl<'a> Bits<'a> {
    fn read(source: BitmapSource<'a>, entry: &BitmapEntry) -> Result<Self> {
        let granularity_bytes = entry.bitmap.granularity_bytes.max(1);
        Ok(Self {
            file: source.file,
            cluster_order: source.header.geometry.cluster_bits(),
            clusters: bitmap_table::read(source.file, source.header, entry)?,
            count: source.header.size_bytes.div_ceil(granularity_bytes),
        })
    }

    /// Returns the number of clusters that store the bits and the table.
    fn stored_clusters(&self) -> u64 {
        let is_stored = |cluster: &&BitmapCluster| matches!(cluster, BitmapCluster::Stored(_));
        let stored = to_u64(self.clusters.iter().filter(is_stored).count());
        let table_bytes = to_u64(self.clusters.len()).saturating_mul(8);
        stored.saturating_add(shift_right(table_bytes, self.cluster_order).max(1))
    }

    /// Returns true if the table says that these bytes of the bits are zeroes.
    fn are_zeroes(&self, at: u64, len_bytes: u64) -> bool {
        let end = at.saturating_add(len_bytes).saturating_sub(1);
        let [first, last] = [at, end].map(|at| to_usize(shift_right(at, self.cluster_order)));
        let clusters = self.clusters.get(first..=last).unwrap_or_default();
        clusters.iter().all(|it| *it == BitmapCluster::Zeroes)
    }

    /// Reads bytes of the bits. Those after the last bit are zero.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let cluster_size = 1_usize.checked_shl(self.cluster_order).unwrap_or(1);
        let mut at = at;
        let mut rest = &mut *bytes;
        while !rest.is_empty() {
            let index = shift_right(at, self.cluster_order);
            let start = to_usize(at) & cluster_size.saturating_sub(1);
            let len = cluster_size.saturating_sub(start).min(rest.len());
            let Some((part, after)) = rest.split_at_mut_checked(len) else {
                break;
            };
            match self.clusters.get(to_usize(index)) {
                None | Some(BitmapCluster::Zeroes) => part.fill(0),
                Some(BitmapCluster::Ones) => part.fill(0xff),
                Some(BitmapCluster::Stored(place)) => {
                    self.file.read_at(place.plus(to_u64(start)).0, part)?;
                }
            }
            at = at.saturating_add(to_u64(len));
            rest = after;
        }
        if at == self.count.div_ceil(8)
            && let Some(last) = bytes.last_mut()
        {
            *last &= self.last_byte();
        }
        Ok(())
    }

    /// Returns the last byte of a bitmap whose bits are all ones.
    fn last_byte(&self) -> u8 {
        match self.count % 8 {
            0 => 0xff,
            used => {
                !(0xff_u8
                    .checked_shl(u32::try_from(used).unwrap_or(0))
                    .unwrap_or(0))
            }
        }
    }
}
