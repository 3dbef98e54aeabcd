//! The superblock as it is stored.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{Superblock, check_size, root};
use crate::bytes::index;
use crate::checksum::ChecksumType;
use crate::dev_item::{DevItem, RawDevItem};
use crate::error::{Result, corrupt};
use crate::features::METADATA_UUID;
use crate::logical::Logical;
use crate::tree_root::{TreeRoot, tree};

/// The superblock as it is stored.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawSuperblock {
    csum: [u8; 32],
    fsid: [u8; 16],
    pub(super) bytenr: U64,
    pub(super) flags: U64,
    pub(super) magic: [u8; 8],
    generation: U64,
    root: U64,
    chunk_root: U64,
    log_root: U64,
    log_root_transid: U64,
    total_bytes: U64,
    bytes_used: U64,
    root_dir_objectid: U64,
    num_devices: U64,
    sectorsize: U32,
    nodesize: U32,
    leafsize: U32,
    stripesize: U32,
    sys_chunk_array_size: U32,
    chunk_root_generation: U64,
    compat_flags: U64,
    compat_ro_flags: U64,
    pub(super) incompat_flags: U64,
    pub(super) csum_type: U16,
    root_level: u8,
    chunk_root_level: u8,
    log_root_level: u8,
    dev_item: RawDevItem,
    label: [u8; 256],
    cache_generation: U64,
    uuid_tree_generation: U64,
    metadata_uuid: [u8; 16],
    nr_global_roots: U64,
    reserved: [U64; 27],
    sys_chunk_array: [u8; 2048],
    super_roots: [u8; 4 * 168],
    padding: [u8; 565],
}

const _: () = assert!(size_of::<RawSuperblock>() == 4096);

impl RawSuperblock {
    /// Checks the fields; `at` is the byte of the device that the superblock was read from.
    pub(super) fn validate(&self, checksum: ChecksumType, at: u64) -> Result<Superblock> {
        let sector_bytes = self.sectorsize.get();
        check_size("sectors", sector_bytes, at)?;
        check_size("nodes", self.nodesize.get(), at)?;
        if self.nodesize.get() < sector_bytes {
            let reason = "invalid superblock of btrfs: nodes are smaller than sectors";
            return Err(corrupt(reason, at));
        }
        let incompat = self.incompat_flags.get();
        let has_metadata_uuid = incompat & METADATA_UUID != 0;
        let checked = |name, tree_root| root(name, tree_root, sector_bytes, at);
        Ok(Superblock {
            at,
            checksum,
            fsid: self.fsid,
            metadata_uuid: if has_metadata_uuid {
                self.metadata_uuid
            } else {
                self.fsid
            },
            flags: self.flags.get(),
            generation: self.generation.get(),
            root: checked("root", self.root_tree())?,
            chunk_root: checked("chunk", self.chunk_tree())?,
            log_root: self
                .log_tree()
                .map(|root| checked("log", root))
                .transpose()?,
            total_bytes: self.total_bytes.get(),
            root_dir_object_id: self.root_dir_objectid.get(),
            num_devices: self.num_devices.get(),
            sector_bytes,
            node_bytes: self.nodesize.get(),
            compat_ro: self.compat_ro_flags.get(),
            incompat,
            device: DevItem::from(&self.dev_item),
            label: self
                .label
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default()
                .to_vec(),
            sys_chunk_array: self.chunks(at)?.to_vec(),
        })
    }

    fn root_tree(&self) -> TreeRoot {
        TreeRoot {
            owner: tree::ROOT,
            logical: Logical(self.root.get()),
            level: self.root_level,
            generation: self.generation.get(),
        }
    }

    fn chunk_tree(&self) -> TreeRoot {
        TreeRoot {
            owner: tree::CHUNK,
            logical: Logical(self.chunk_root.get()),
            level: self.chunk_root_level,
            generation: self.chunk_root_generation.get(),
        }
    }

    /// Returns the log tree. It is written in the transaction after the superblock's.
    fn log_tree(&self) -> Option<TreeRoot> {
        (self.log_root.get() != 0).then(|| TreeRoot {
            owner: tree::LOG,
            logical: Logical(self.log_root.get()),
            level: self.log_root_level,
            generation: self.generation.get().saturating_add(1),
        })
    }

    fn chunks(&self, at: u64) -> Result<&[u8]> {
        let len = self.sys_chunk_array_size.get();
        self.sys_chunk_array.get(..index(len)).ok_or_else(|| {
            let reason = format!("invalid superblock of btrfs: {len} bytes of system chunks");
            corrupt(reason, at)
        })
    }
}
