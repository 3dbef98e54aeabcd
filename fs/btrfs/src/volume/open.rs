//! Opening a filesystem: superblock, chunks, root tree, log.

use std::sync::Arc;

use diskfs_block::BlockRead;

use super::Volume;
use crate::changes::Changes;
use crate::chunk::Chunk;
use crate::chunk_map::{self, ChunkMap};
use crate::cursor::{Cursor, Tree};
use crate::dev_item::DevItem;
use crate::device_set::DeviceSet;
use crate::error::Result;
use crate::key::{Key, item};
use crate::logical::Logical;
use crate::storage::Storage;
use crate::superblock::Superblock;
use crate::tree_blocks::TreeBlocks;
use crate::tree_root::tree;

/// The memory for the blocks of the chunk tree, which are needed only to open the filesystem.
const CHUNK_TREE_CACHE_BYTES: u64 = 1 << 20;

/// The largest number of devices whose items are remembered.
const MAX_DEVICES: usize = 1 << 16;

/// The object of the chunk tree that has the devices, and that with the chunks.
const DEV_ITEMS: u64 = 1;
const CHUNKS: u64 = 256;

impl Volume {
    /// Opens the filesystem on `devices`, without its log.
    pub(crate) fn open(devices: Vec<Arc<dyn BlockRead>>, cache_bytes: u64) -> Result<Self> {
        let mut devices = DeviceSet::open(devices, Superblock::read)?;
        let system_chunks = ChunkMap::of_array(&devices.superblock.sys_chunk_array)?;
        let (blocks, chunk_tree) = open_chunk_tree(&devices, system_chunks);
        let chunks = read_chunks(&blocks, &chunk_tree)?;
        devices.items = read_devices(&blocks, &chunk_tree)?;
        note_missing(&mut devices);
        let root = devices.superblock.root;
        let mut volume = Self {
            notes: std::mem::take(&mut devices.notes),
            blocks: TreeBlocks::new(Storage { devices, chunks }, cache_bytes),
            root_tree: Tree {
                root,
                changes: None,
            },
            checksums: None,
            changes: Changes::default(),
        };
        volume.open_checksums()?;
        Ok(volume)
    }

    fn open_checksums(&mut self) -> Result<()> {
        let root = self.root_item(tree::CSUM)?;
        self.checksums = root.map(|item| self.tree(item.root));
        Ok(())
    }

    /// Applies what the replay of the log changed.
    pub(crate) fn apply(&mut self, changes: Changes) -> Result<()> {
        self.changes = changes;
        self.root_tree = self.tree(self.root_tree.root);
        self.open_checksums()
    }
}

/// Returns the devices that the chunk tree lists, present or not.
pub(crate) fn listed_devices(devices: &DeviceSet, system_chunks: ChunkMap) -> Result<Vec<DevItem>> {
    let (blocks, chunk_tree) = open_chunk_tree(devices, system_chunks);
    read_devices(&blocks, &chunk_tree)
}

/// Returns the chunk tree, which is in the chunks that the superblock lists.
fn open_chunk_tree(devices: &DeviceSet, system_chunks: ChunkMap) -> (TreeBlocks, Tree) {
    let storage = Storage {
        devices: devices.clone(),
        chunks: system_chunks,
    };
    let chunk_tree = Tree {
        root: devices.superblock.chunk_root,
        changes: None,
    };
    (TreeBlocks::new(storage, CHUNK_TREE_CACHE_BYTES), chunk_tree)
}

/// Reads the chunks of the chunk tree.
fn read_chunks(blocks: &TreeBlocks, tree: &Tree) -> Result<ChunkMap> {
    let mut chunks = ChunkMap::default();
    let first = Key::new(CHUNKS, item::CHUNK_ITEM, 0);
    let mut cursor = Cursor::at_or_after(blocks, tree, first)?;
    while let Some(found) = cursor.item().filter(|found| found.key.is_beside(first)) {
        let start = Logical(found.key.offset);
        let chunk = Chunk::parse(found.bytes(), start);
        let (chunk, _) = chunk.map_err(|reason| chunk_map::invalid(start, &reason))?;
        chunks.insert(chunk)?;
        cursor.advance()?;
    }
    Ok(chunks)
}

/// Reads the devices of the chunk tree.
fn read_devices(blocks: &TreeBlocks, tree: &Tree) -> Result<Vec<DevItem>> {
    let mut devices = Vec::new();
    let first = Key::new(DEV_ITEMS, item::DEV_ITEM, 0);
    let mut cursor = Cursor::at_or_after(blocks, tree, first)?;
    while let Some(found) = cursor.item().filter(|found| found.key.is_beside(first)) {
        if devices.len() < MAX_DEVICES {
            let device = DevItem::parse(found.bytes());
            devices.push(device.ok_or_else(|| found.invalid("it is too short"))?);
        }
        cursor.advance()?;
    }
    Ok(devices)
}

/// Notes the devices that the filesystem has, and that were not given.
fn note_missing(devices: &mut DeviceSet) {
    let is_missing = |item: &&DevItem| devices.position(item.devid, item.uuid).is_none();
    let missing = devices.items.iter().filter(is_missing);
    let notes: Vec<_> = missing
        .map(|item| format!("device {} is missing", item.devid))
        .collect();
    devices.notes.extend(notes);
}
