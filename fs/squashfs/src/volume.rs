//! An open filesystem: its superblock, tables and caches.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use diskfs_block::BlockRead;
use diskfs_vfs::InodeNumber;
use zerocopy::little_endian::{U32, U64};

use crate::compressor_options;
use crate::data_block::DataBlocks;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::inode_reference::InodeReference;
use crate::lookup_table::LookupTable;
use crate::metadata_block::{MetadataBlocks, Table};
use crate::segment::{Segments, no_segments};
use crate::superblock::Superblock;
use crate::xattr_id::XattrIds;

/// The places of all directories by their stored numbers.
pub(crate) type Parents = HashMap<u32, InodeReference>;

/// An open filesystem.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) superblock: Superblock,
    pub(crate) blocks: MetadataBlocks,
    pub(crate) data: DataBlocks,
    pub(crate) segments: Segments,
    pub(crate) fragments: Option<LookupTable>,
    pub(crate) xattr_ids: Option<XattrIds>,
    /// The parents of directories, if there is no export table; made when they are needed.
    pub(crate) parents: OnceLock<Parents>,
    ids: LookupTable,
    exports: Option<LookupTable>,
}

impl Volume {
    pub(crate) fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let superblock = Superblock::read(&*device)?;
        if superblock.has_compressor_options {
            compressor_options::check(&*device, superblock.compressor)?;
        }
        let compressor = superblock.compressor;
        let bytes_used = superblock.bytes_used;
        let blocks = MetadataBlocks::new(Arc::clone(&device), compressor, bytes_used)?;
        let xattr_ids = superblock.xattr_id_table;
        let xattr_ids = xattr_ids.map(|start| XattrIds::read(&blocks, start));
        let table = |start, entries| LookupTable { start, entries };
        let fragments = superblock.fragment_table;
        let exports = superblock.export_table;
        Ok(Self {
            data: DataBlocks::new(device, compressor, superblock.block_bytes, bytes_used),
            segments: no_segments(),
            fragments: fragments.map(|start| table(start, superblock.fragments.into())),
            xattr_ids: xattr_ids.transpose()?,
            parents: OnceLock::new(),
            ids: table(superblock.id_table, superblock.ids.into()),
            exports: exports.map(|start| table(start, superblock.inodes.into())),
            blocks,
            superblock,
        })
    }

    /// Returns the bytes of the device that the inode table has.
    pub(crate) fn inode_table(&self) -> Table {
        Table {
            start: self.superblock.inode_table,
            end: self.superblock.directory_table,
        }
    }

    /// Returns the bytes of the device that may belong to the directory table.
    pub(crate) fn directory_table(&self) -> Table {
        Table {
            start: self.superblock.directory_table,
            end: self.superblock.bytes_used,
        }
    }

    /// Returns true if there is an export table, so that inodes have the numbers of their own.
    pub(crate) fn has_exports(&self) -> bool {
        self.exports.is_some()
    }

    /// Returns a user or group ID.
    pub(crate) fn id(&self, number: u16) -> Result<u32> {
        let id: U32 = self.ids.entry(&self.blocks, number.into())?;
        Ok(id.get())
    }

    /// Returns the inode number of an inode with the stored number `stored`.
    ///
    /// # Errors
    /// `Corrupt` if the export table has no such number.
    pub(crate) fn number_of(&self, reference: InodeReference, stored: u32) -> Result<InodeNumber> {
        let Some(exports) = &self.exports else {
            // FUSE has no inode 0, which the first reference would be.
            return Ok(InodeNumber(reference.0.saturating_add(1)));
        };
        if stored == 0 || u64::from(stored) > exports.entries {
            let reason = format!("invalid inode number {stored}: more than there are inodes");
            let place = self
                .superblock
                .inode_table
                .saturating_add(reference.block());
            return Err(corrupt(reason, place));
        }
        Ok(InodeNumber(stored.into()))
    }

    /// Returns the place of an inode.
    ///
    /// # Errors
    /// `NotFound` if no inode can have the number.
    pub(crate) fn reference_of(&self, inode: InodeNumber) -> Result<InodeReference> {
        let missing = || Error::from(ErrorKind::NotFound).in_inode(inode);
        let nth = inode.0.checked_sub(1).ok_or_else(missing)?;
        let reference = match &self.exports {
            None => InodeReference(nth),
            Some(exports) if nth >= exports.entries => return Err(missing()),
            Some(exports) => {
                let stored: U64 = exports.entry(&self.blocks, nth)?;
                InodeReference(stored.get())
            }
        };
        let table = self.inode_table();
        if reference.block() >= table.end.saturating_sub(table.start) {
            return Err(missing());
        }
        Ok(reference)
    }
}
