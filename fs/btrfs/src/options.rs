//! The options for opening a filesystem.

/// The options for opening a filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The subvolume whose root directory is the root of the tree.
    pub root: RootSubvolume,
    /// The memory limit of the cache of tree blocks, in bytes.
    pub metadata_cache_bytes: u64,
    /// The memory limit of the cache of decompressed extents, in bytes.
    pub data_cache_bytes: u64,
}

/// The choice of a subvolume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RootSubvolume {
    /// The default subvolume, which a kernel mounts without options.
    #[default]
    Default,
    /// The subvolume with this ID; 5 is the one at the top, which contains all others.
    Id(u64),
    /// The subvolume with this path below the one at the top, as with the mount option `subvol`.
    Path(Vec<u8>),
}

impl Default for Options {
    /// Returns the default subvolume, 12 MiB of tree blocks, and 4 MiB of decompressed extents.
    fn default() -> Self {
        Self {
            root: RootSubvolume::Default,
            metadata_cache_bytes: 12 << 20,
            data_cache_bytes: 4 << 20,
        }
    }
}
