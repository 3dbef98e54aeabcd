//! Extended attributes: entries, values, blocks that inodes share, and values in inodes.

use diskfs_vfs::FileType;
use zerocopy::FromBytes;

use super::context::{Context, Referenced};
use super::finding::{FindingKind, FindingPlace};
use crate::block::FsBlock;
use crate::bytes::{index, le32, part};
use crate::error::Result;
use crate::features::{Compatible, Incompatible};
use crate::inode::{Inode, InodeFlags};
use crate::xattr::{BLOCK_HEADER_BYTES, RawEntry, block_references, check_block, hash};

/// The magic of a block of attributes, `EXT4_XATTR_MAGIC`.
const BLOCK_MAGIC: u32 = 0xea02_0000;
const ENTRY_BYTES: usize = size_of::<RawEntry>();

/// The values of attributes that are in other inodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ValueInodes {
    /// The bytes of the values, which count as blocks of the owner.
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl ValueInodes {
    pub(super) const fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.inodes = self.inodes.saturating_add(other.inodes);
    }
}

/// Checks the attributes in an inode. Returns the values in other inodes.
pub(super) fn check_in_inode(context: &Context<'_>, inode: &Inode) -> ValueInodes {
    let list = AttributeList {
        context,
        inode,
        block: None,
        bytes: &inode.xattr_bytes,
    };
    list.check(0)
}

/// Checks the inode's block of attributes, unless another inode has it, too. Returns the
/// values in other inodes, and whether the block is new.
pub(super) fn check_in_block(
    context: &Context<'_>,
    inode: &Inode,
) -> Result<Option<(ValueInodes, bool)>> {
    let block = FsBlock(inode.xattr_block);
    let superblock = context.superblock();
    if block.0 == 0 {
        return Ok(None);
    }
    let place = FindingPlace::inode(inode.number).with_block(block.0);
    if !superblock.features.has(Compatible::EXT_ATTR) || !superblock.holds(block, 1) {
        let detail = format!(
            "i_file_acl is {block}, expected 0 or a block within the filesystem, with `ext_attr`"
        );
        context.found(FindingKind::BlockOutOfRange, place, detail);
        return Ok(None);
    }
    // The lock is held until the block is checked, so that its values are counted once.
    let mut blocks = context.references.blocks();
    if let Some(known) = blocks.get_mut(&block.0) {
        known.found = known.found.saturating_add(1);
        return Ok(Some((known.values, false)));
    }
    context.budget.take::<(u64, Referenced)>(1)?;
    let bytes = context.volume.read_blocks(block, 1)?;
    let is_header_valid = le32(&bytes, 0) == Some(BLOCK_MAGIC) && le32(&bytes, 8) == Some(1);
    let mut values = ValueInodes::default();
    if let Err(e) = check_block(superblock, block, &bytes) {
        let kind = if is_header_valid {
            FindingKind::AttributeChecksum
        } else {
            FindingKind::AttributeBlock
        };
        context.found(kind, place, e.to_string());
    }
    if is_header_valid {
        let list = AttributeList {
            context,
            inode,
            block: Some(block),
            bytes: &bytes,
        };
        values = list.check(BLOCK_HEADER_BYTES);
    }
    let stored = u64::from(block_references(&bytes));
    let referenced = Referenced {
        found: 1,
        // An invalid header has no count to compare.
        stored: is_header_valid.then_some(stored),
        values,
    };
    blocks.insert(block.0, referenced);
    Ok(Some((values, true)))
}

/// A list of attributes in an inode or in a block.
struct AttributeList<'a> {
    context: &'a Context<'a>,
    inode: &'a Inode,
    /// The block that contains the list; `None` if it is in the inode.
    block: Option<FsBlock>,
    /// The bytes from whose start the values' offsets count.
    bytes: &'a [u8],
}

impl AttributeList<'_> {
    /// Checks all entries from `first` on. Returns the values in other inodes.
    fn check(&self, first: usize) -> ValueInodes {
        let mut offset = first;
        let mut in_inodes = ValueInodes::default();
        let mut values = Vec::new();
        // Four bytes of zeroes end the list; so does the end of the inode.
        while le32(self.bytes, offset).unwrap_or(0) != 0 {
            let rest = self.bytes.get(offset..).unwrap_or_default();
            let Ok((entry, behind)) = RawEntry::ref_from_prefix(rest) else {
                self.found(
                    FindingKind::AttributeEntry,
                    b"",
                    "an entry is truncated".into(),
                );
                return in_inodes;
            };
            let Some(name) = behind.get(..usize::from(entry.e_name_len)) else {
                self.found(
                    FindingKind::AttributeEntry,
                    b"",
                    "a name is truncated".into(),
                );
                return in_inodes;
            };
            in_inodes.add(self.value(entry, name, &mut values));
            let len = ENTRY_BYTES.saturating_add(name.len());
            offset = offset.saturating_add(len.next_multiple_of(4));
        }
        self.check_overlaps(offset, values);
        in_inodes
    }

    /// Checks a value. Counts it if it is in another inode.
    fn value(
        &self,
        entry: &RawEntry,
        name: &[u8],
        values: &mut Vec<(usize, usize)>,
    ) -> ValueInodes {
        let size = entry.e_value_size.get();
        let number = entry.e_value_inum.get();
        if number != 0 {
            return self.value_inode(entry, name, number);
        }
        let offset = usize::from(entry.e_value_offs.get());
        let value = part(self.bytes, offset, index(size));
        let Some(value) = value else {
            let end = self.bytes.len();
            let detail = format!(
                "the value has {size} bytes at offset {offset}, expected an end of at most {end}"
            );
            self.found(FindingKind::AttributeEntry, name, detail);
            return ValueInodes::default();
        };
        if size > 0 {
            values.push((
                offset,
                offset.saturating_add(value.len().next_multiple_of(4)),
            ));
        }
        self.check_hash(entry, name, hash::of_entry(name, value), || {
            hash::of_entry_signed(name, value)
        });
        ValueInodes::default()
    }

    fn check_hash(&self, entry: &RawEntry, name: &[u8], expected: u32, signed: impl Fn() -> u32) {
        let stored = entry.e_hash.get();
        // Within an inode the hash is optional.
        let is_absent = stored == 0 && self.block.is_none();
        if stored != expected && !is_absent && stored != signed() {
            let detail = format!("e_hash is {stored:#x}, expected {expected:#x}");
            self.found(FindingKind::AttributeHash, name, detail);
        }
    }

    fn value_inode(&self, entry: &RawEntry, name: &[u8], number: u32) -> ValueInodes {
        let context = self.context;
        let size = u64::from(entry.e_value_size.get());
        let inode = context.volume.inode(number).ok().flatten();
        let is_value = |inode: &Inode| {
            is_value(inode) && size > 0 && inode.size_bytes == size && number != self.inode.number
        };
        let Some(value) = inode.filter(|inode| is_value(inode)) else {
            let detail =
                format!("the value is in inode {number}, which contains no value of {size} bytes");
            self.found(FindingKind::AttributeInode, name, detail);
            return ValueInodes::default();
        };
        if !context.superblock().features.has(Incompatible::EA_INODE) {
            let detail = "the value is in an inode, which needs the feature `ea_inode`";
            self.found(FindingKind::AttributeInode, name, detail.into());
        }
        let mut inodes = context.references.inodes();
        let references = inodes.entry(number).or_default();
        references.found = references.found.saturating_add(1);
        drop(inodes);
        let expected = hash::of_entry_with_inode(name, value.raw_atime);
        let signed = hash::of_entry_with_inode_signed(name, value.raw_atime);
        let stored = entry.e_hash.get();
        let of_lustre = value.modified.seconds == i64::from(self.inode.number)
            && value.generation == self.inode.generation;
        if of_lustre && stored != expected && stored != signed {
            // Values of Lustre have no hash, and do not count as blocks of their owner.
            return ValueInodes::default();
        }
        self.check_hash(entry, name, expected, || signed);
        let superblock = context.superblock();
        let bits = superblock
            .block_size
            .bits()
            .saturating_add(superblock.cluster_ratio_bits);
        ValueInodes {
            bytes: size.div_ceil(1u64.wrapping_shl(bits)).wrapping_shl(bits),
            inodes: 1,
        }
    }

    /// Reports values that overlap each other or the entries. The entries end at `end`, and four
    /// bytes of zeroes must follow them.
    fn check_overlaps(&self, end: usize, mut values: Vec<(usize, usize)>) {
        const END_BYTES: usize = 4;
        let mut free_from = end.saturating_add(END_BYTES);
        if free_from > self.bytes.len() && !self.bytes.is_empty() {
            let detail = format!("the entries have no end: the last one ends at offset {end}");
            self.found(FindingKind::AttributeEntry, b"", detail);
        }
        values.sort_unstable();
        for (first, end) in values {
            if first < free_from {
                let detail = format!("the value at offset {first} overlaps the bytes before it");
                self.found(FindingKind::AttributeEntry, b"", detail);
            }
            free_from = free_from.max(end);
        }
    }

    fn found(&self, kind: FindingKind, name: &[u8], detail: String) {
        let place = FindingPlace {
            block: self.block.map(|block| block.0),
            ..FindingPlace::inode(self.inode.number)
        };
        let place = if name.is_empty() {
            place
        } else {
            place.with_name(name)
        };
        self.context.found(kind, place, detail);
    }
}

/// Returns true if an inode contains the value of an attribute.
pub(super) fn is_value(inode: &Inode) -> bool {
    inode.has(InodeFlags::EA_INODE) && inode.is(FileType::Regular)
}

/// Counts one link of each inode with a value that an attribute refers to. Returns these inodes,
/// sorted.
pub(super) fn link_values(context: &Context<'_>) -> Result<Vec<u32>> {
    let mut referenced = Vec::new();
    for (&inode, references) in context.references.inodes().iter() {
        if references.found > 0 && context.inodes.get(inode).is_some() {
            context.budget.take::<u32>(1)?;
            context.inodes.found_link(inode, context.budget)?;
            referenced.push(inode);
        }
    }
    Ok(referenced)
}

/// Compares the stored counts of references with those that were found.
pub(super) fn compare_references(context: &Context<'_>) {
    let kind = FindingKind::AttributeReferences;
    for (&block, references) in context.references.blocks().iter() {
        let Referenced { found, stored, .. } = *references;
        if let Some(stored) = stored
            && stored != found
        {
            let place = FindingPlace::filesystem().with_block(block);
            let detail =
                format!("the block of attributes has {stored} references, expected {found}");
            context.found(kind, place, detail);
        }
    }
    for (&inode, references) in context.references.inodes().iter() {
        let Referenced { found, stored, .. } = *references;
        // Without a reference it is a file like any other.
        if let Some(stored) = stored
            && stored != found
            && found > 0
        {
            let detail = format!("the attribute value has {stored} references, expected {found}");
            context.found_in(kind, inode, detail);
        }
    }
}
