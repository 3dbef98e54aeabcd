//! The usage of a filesystem, calculated as Linux does (`btrfs_statfs`).

mod available;

use diskfs_vfs::Statistics;

use crate::bytes::le64;
use crate::chunk::{BlockGroupType, Chunk};
use crate::dev_item::DevItem;
use crate::dir_item::NAME_MAX;
use crate::error::Result;
use crate::features::{BLOCK_GROUP_TREE, FREE_SPACE_TREE};
use crate::key::{Key, item};
use crate::tree_root::{MAX_LEVELS, tree};
use crate::volume::Volume;

/// Bytes on devices, of one kind of contents.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    total: u64,
    used: u64,
}

/// The usage of all block groups.
#[derive(Debug, Clone, Copy)]
struct Usages {
    data: Usage,
    all: Usage,
    /// The type of the block group with data that comes last in Linux's order of profiles.
    data_type: BlockGroupType,
    /// The types of all block groups with data.
    data_types: BlockGroupType,
}

pub(crate) fn statistics(volume: &Volume) -> Result<Statistics> {
    let superblock = volume.superblock();
    let usages = usages(volume)?;
    let factor = usages.data_type.factor();
    let contents = |bytes: u64| bytes.checked_div(factor).unwrap_or(0);
    let in_blocks = |bytes: u64| bytes.checked_div(volume.sector_bytes()).unwrap_or(0);
    let blocks = in_blocks(contents(superblock.total_bytes));
    let reserve = in_blocks(global_reserve(volume)?);
    let blocks_free = blocks.saturating_sub(in_blocks(contents(usages.all.used)));
    let unallocated = available::unallocated(volume, usages.data_types);
    let free_data = usages.data.total.saturating_sub(usages.data.used);
    let available = contents(free_data).saturating_add(contents(unallocated));
    Ok(Statistics {
        block_size: superblock.sector_bytes,
        allocation_size: superblock.sector_bytes,
        blocks,
        blocks_free: blocks_free.saturating_sub(reserve),
        blocks_available: in_blocks(available),
        inodes: 0,
        inodes_free: 0,
        name_max: u32::try_from(NAME_MAX).unwrap_or_default(),
    })
}

/// Adds up the block groups, of which each chunk has one.
fn usages(volume: &Volume) -> Result<Usages> {
    let has_own_tree = volume.superblock().compat_ro & BLOCK_GROUP_TREE != 0;
    let tree = if has_own_tree {
        volume.existing_tree(tree::BLOCK_GROUP, "block group")?
    } else {
        volume.existing_tree(tree::EXTENT, "extent")?
    };
    let mut usages = Usages {
        data: Usage::default(),
        all: Usage::default(),
        data_type: BlockGroupType(0),
        data_types: BlockGroupType(0),
    };
    let mut has_data = false;
    for chunk in volume.blocks.storage.chunks.iter() {
        let key = Key::new(chunk.start.0, item::BLOCK_GROUP_ITEM, chunk.len_bytes);
        let found = volume.find(&tree, key)?;
        let used = found.and_then(|found| le64(found.bytes(), 0)).unwrap_or(0);
        let total = if is_writable(volume, chunk) {
            chunk.len_bytes
        } else {
            used
        };
        usages.add(chunk, (total, used), &mut has_data);
    }
    Ok(usages)
}

/// Returns false for a chunk on a seed device: its free space can't be used.
fn is_writable(volume: &Volume, chunk: &Chunk) -> bool {
    let superblock = volume.superblock();
    let items = &volume.blocks.storage.devices.items;
    let is_on_seed = chunk.stripes.iter().any(|stripe| {
        let of_stripe =
            |item: &&DevItem| (item.devid, item.uuid) == (stripe.devid, stripe.dev_uuid);
        let item = items.iter().find(of_stripe);
        item.is_some_and(|item| item.fsid != superblock.metadata_uuid)
    });
    !superblock.is_seed() && !is_on_seed
}

impl Usages {
    /// Adds a chunk with the bytes that it can have and those that it has.
    fn add(&mut self, chunk: &Chunk, (total, used): (u64, u64), has_data: &mut bool) {
        let block_group = chunk.block_group;
        let factor = block_group.factor();
        let add = |usage: &mut Usage| {
            usage.total = usage.total.saturating_add(total.saturating_mul(factor));
            usage.used = usage.used.saturating_add(used.saturating_mul(factor));
        };
        add(&mut self.all);
        if !block_group.has_data() {
            return;
        }
        add(&mut self.data);
        if !*has_data || block_group.raid_index() > self.data_type.raid_index() {
            self.data_type = block_group;
        }
        self.data_types.0 |= block_group.0;
        *has_data = true;
    }
}

/// Returns the space that Linux keeps for its own changes of metadata
/// (`btrfs_update_global_block_rsv`).
fn global_reserve(volume: &Volume) -> Result<u64> {
    /// The items that removing a file changes (`BTRFS_UNLINK_METADATA_UNITS`).
    const UNLINK_ITEMS: u64 = 6;
    const MAX_BYTES: u64 = 512 << 20;
    let compat_ro = volume.superblock().compat_ro;
    let mut ids = vec![tree::EXTENT, tree::CSUM];
    ids.extend((compat_ro & FREE_SPACE_TREE != 0).then_some(tree::FREE_SPACE));
    ids.extend((compat_ro & BLOCK_GROUP_TREE != 0).then_some(tree::BLOCK_GROUP));
    let mut used = 0_u64;
    let mut items = UNLINK_ITEMS.saturating_add(1);
    for id in ids {
        if let Some(root) = volume.root_item(id)? {
            used = used.saturating_add(root.bytes_used);
            items = items.saturating_add(1);
        }
    }
    let node_bytes = u64::from(volume.superblock().node_bytes);
    let item_bytes = node_bytes
        .saturating_mul(u64::from(MAX_LEVELS))
        .saturating_mul(2);
    let refs = if compat_ro & FREE_SPACE_TREE != 0 {
        2
    } else {
        1
    };
    let items = items.saturating_add(UNLINK_ITEMS.saturating_mul(refs));
    Ok(used.max(item_bytes.saturating_mul(items)).min(MAX_BYTES))
}
