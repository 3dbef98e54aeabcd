//! The header as stored, for reports about images whose header may be invalid.

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::FromBytes;

use crate::numbers::{power_of_two, to_usize};
use crate::qcow2::features::Incompatible;
use crate::qcow2::header::{CLUSTER_BITS, RawHeaderV2, RawHeaderV3, read_start, truncated};
use crate::qcow2::header_extensions::HeaderExtensions;

/// The length of the header of version 2, which has no field for it.
const V2_BYTES: u32 = 72;

/// The fields of a header as stored: none of them is validated.
#[derive(Debug)]
pub(crate) struct Stated {
    pub(crate) backing_offset: u64,
    pub(crate) backing_len: u32,
    /// The name of the backing file, if it is in the first cluster.
    pub(crate) backing_name: Option<Vec<u8>>,
    pub(crate) cluster_bits: u32,
    pub(crate) size_bytes: u64,
    pub(crate) l1_entries: u32,
    pub(crate) refcount_clusters: u32,
    pub(crate) snapshots: u32,
    pub(crate) incompatible: Incompatible,
    pub(crate) header_bytes: u32,
    /// The name of the external data file in the header extensions.
    pub(crate) data_file: Option<Vec<u8>>,
    /// The error in the header extensions, if they are longer than their area.
    pub(crate) extensions_error: Option<Error>,
}

impl Stated {
    /// Reads the header, and the rest of the first cluster.
    ///
    /// # Errors
    /// `Corrupt` for a header that is truncated, and as for [`BlockRead::read_at`].
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        // 2 MiB at most.
        let bytes = read_start(file, power_of_two(*CLUSTER_BITS.end()))?;
        let (v2, rest) = RawHeaderV2::read_from_prefix(&bytes).map_err(|_| truncated(&bytes))?;
        let (incompatible, header_bytes) = if v2.version.get() == 2 {
            (0, V2_BYTES)
        } else {
            let (v3, _) = RawHeaderV3::read_from_prefix(rest).map_err(|_| truncated(&bytes))?;
            (v3.incompatible_features.get(), v3.header_length.get())
        };
        let mut stated = Self {
            backing_offset: v2.backing_file_offset.get(),
            backing_len: v2.backing_file_size.get(),
            backing_name: None,
            cluster_bits: v2.cluster_bits.get(),
            size_bytes: v2.size.get(),
            l1_entries: v2.l1_size.get(),
            refcount_clusters: v2.refcount_table_clusters.get(),
            snapshots: v2.nb_snapshots.get(),
            incompatible: Incompatible(incompatible),
            header_bytes,
            data_file: None,
            extensions_error: None,
        };
        stated.take_names(&bytes);
        Ok(stated)
    }

    /// Takes the names of other files out of the first cluster.
    fn take_names(&mut self, bytes: &[u8]) {
        let cluster_bytes = to_usize(power_of_two(self.cluster_bits.min(*CLUSTER_BITS.end())));
        let first = bytes.get(..cluster_bytes).unwrap_or(bytes);
        let name_at = to_usize(self.backing_offset);
        let name_end = name_at.saturating_add(to_usize(self.backing_len));
        if name_at != 0 {
            self.backing_name = first.get(name_at..name_end).map(<[u8]>::to_vec);
        }
        let end = match name_at {
            0 => cluster_bytes,
            at => at.min(cluster_bytes),
        };
        match HeaderExtensions::parse(first, to_usize(self.header_bytes), end) {
            Ok(extensions) => self.data_file = extensions.data_file,
            // In a file that ends in its first cluster, they are truncated.
            Err(_) if first.len() < cluster_bytes => {}
            Err(error) => self.extensions_error = Some(error),
        }
    }
}
