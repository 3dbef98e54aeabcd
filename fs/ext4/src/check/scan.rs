//! The scan of the inode tables: each inode is read once, in order.

use std::sync::{Mutex, PoisonError};

use diskfs_vfs::FileType;
use zerocopy::FromBytes;

use super::attributes::{self, ValueInodes};
use super::claims::Claims;
use super::context::Context;
use super::encryption;
use super::fields::InodeFields;
use super::finding::{FindingKind, FindingPlace};
use super::inode_tables::for_each_inode;
use super::quota::{Usage, Used};
use super::report::CheckStatistics;
use super::special::{self, HiddenInodes};
use crate::block::FsBlock;
use crate::bytes::{index, join64, put};
use crate::error::Result;
use crate::inode::{Inode, InodeFlags, LINKS_COUNT, ROOT, RawInode};
use crate::run::Run;

/// A directory that the scan found.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) inode: u32,
    pub(super) generation: u32,
    pub(super) flags: InodeFlags,
    pub(super) size_bytes: u64,
    pub(super) runs: Box<[Run]>,
    /// The inode of a directory with inline data.
    pub(super) inline: Option<Box<Inode>>,
}

/// The results of the scan.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    pub(super) directories: Vec<Directory>,
    pub(super) statistics: CheckStatistics,
    pub(super) usage: Usage,
}

/// The scan of inode tables, which several threads run for different groups.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) hidden: HiddenInodes,
    pub(super) result: Mutex<ScanResult>,
}

impl Scan<'_> {
    /// Scans the inode table of a group.
    pub(super) fn group(&self, group: u32) -> Result<()> {
        let context = self.context;
        let Some(found) = context.groups.get(index(group)) else {
            return Ok(());
        };
        let inodes = found.inodes_to_scan(context.volume);
        context.inodes.prepare(group, inodes, context.budget)?;
        let mut part = ScanResult::default();
        for_each_inode(context, group, |number, bytes| {
            self.inode(number, bytes, &mut part)
        })?;
        context
            .quota
            .add(std::mem::take(&mut part.usage), context.budget)?;
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.directories.append(&mut part.directories);
        result.statistics.add(part.statistics);
        Ok(())
    }

    fn inode(&self, number: u32, bytes: &[u8], part: &mut ScanResult) -> Result<()> {
        let Ok((raw, _)) = RawInode::ref_from_prefix(bytes) else {
            return Ok(());
        };
        let context = self.context;
        if context.is_in_defective_block(number) {
            return context.inodes.set(number, None, 0, context.budget);
        }
        let deleted = raw.i_dtime.get();
        if self.hidden.is_orphan_link(deleted) && !context.orphans.contains(&number) {
            let detail = format!("i_dtime is {deleted}, the next inode of a broken orphan list");
            context.found_in(FindingKind::Orphan, number, detail);
        }
        if self.hidden.is_reserved(number) {
            return self.reserved(number, raw, bytes, part);
        }
        if raw.i_links_count.get() == 0 && !context.orphans.contains(&number) {
            let is_free = raw.i_mode.get() == 0 || raw.i_dtime.get() != 0;
            if !is_free {
                let detail = "the inode is not in use, but has a type and no deletion time";
                context.found_in(FindingKind::InodeDeletionTime, number, detail);
            }
            self.check_unused(number, bytes);
            return Ok(());
        }
        let superblock = context.superblock();
        let inode = match Inode::parse_unchecked(superblock, number, bytes) {
            Ok(Some(inode)) => inode,
            Ok(None) => return Ok(()),
            Err(e) => {
                context.found_in(FindingKind::InodeExtraSize, number, e.to_string());
                let file_type = FileType::from_mode(u32::from(raw.i_mode.get()));
                let links = raw.i_links_count.get();
                return context.inodes.set(number, file_type, links, context.budget);
            }
        };
        self.count(&inode, part);
        let is_hidden = self.hidden.contains(number);
        let links = if is_hidden { 0 } else { inode.links };
        context
            .inodes
            .set(number, inode.file_type, links, context.budget)?;
        if attributes::is_value(&inode) {
            self.note_value(number, raw)?;
        }
        if inode.has(InodeFlags::ENCRYPT) {
            encryption::check(context, &inode)?;
        }
        let fields = InodeFields {
            context,
            inode: &inode,
            raw,
            bytes,
        };
        fields.check();
        self.contents(&fields, part)
    }

    /// Verifies the checksum of an inode that is not in use, but was before.
    fn check_unused(&self, number: u32, bytes: &[u8]) {
        let superblock = self.context.superblock();
        if superblock.checksum_seed.is_none() || bytes.iter().all(|&byte| byte == 0) {
            return;
        }
        let mut with_link = bytes.to_vec();
        put(&mut with_link, LINKS_COUNT, &[1, 0]);
        if let Ok(Some(inode)) = Inode::parse_unchecked(superblock, number, &with_link)
            && let Err(e) = inode.verify_checksum(bytes)
        {
            self.context
                .found_in(FindingKind::InodeChecksum, number, e.to_string());
        }
    }

    /// Notes the count of references of an inode with a value.
    fn note_value(&self, number: u32, raw: &RawInode) -> Result<()> {
        let context = self.context;
        context.budget.take::<[u64; 5]>(1)?;
        // Values of Lustre have equal times in place of a count.
        let has_count = raw.i_ctime.get() != raw.i_atime.get();
        let stored = has_count.then(|| join64(raw.i_ctime.get(), raw.l_i_version.get()));
        let mut inodes = context.references.inodes();
        inodes.entry(number).or_default().stored = stored;
        Ok(())
    }

    fn count(&self, inode: &Inode, part: &mut ScanResult) {
        let statistics = &mut part.statistics;
        statistics.used_inodes = statistics.used_inodes.saturating_add(1);
        let is_hidden = self.hidden.contains(inode.number) || inode.has(InodeFlags::EA_INODE);
        let counter = match inode.file_type {
            Some(FileType::Regular) if !is_hidden => &mut statistics.regular_files,
            Some(FileType::Directory) => &mut statistics.directories,
            Some(FileType::Symlink) => &mut statistics.symlinks,
            _ => return,
        };
        *counter = counter.saturating_add(1);
    }

    /// Checks the attributes and the blocks of an inode in use.
    fn contents(&self, fields: &InodeFields<'_>, part: &mut ScanResult) -> Result<()> {
        let context = self.context;
        let inode = fields.inode;
        let mut claims = Claims::new(context, inode);
        let has_blocks = fields.has_blocks();
        if has_blocks {
            fields.walk(&mut claims)?;
        } else if inode.has(InodeFlags::INLINE_DATA) {
            fields.check_inline_data();
        }
        if claims.is_fragmented() {
            part.statistics.non_contiguous = part.statistics.non_contiguous.saturating_add(1);
        }
        let first = claims.first_run();
        let values = claim_attributes(context, inode, &mut claims)?;
        claims.compare(values.bytes);
        if self.has_quota(inode) {
            let used = Used {
                bytes: claims.bytes().saturating_add(values.bytes),
                inodes: values.inodes.saturating_add(1),
            };
            context.quota.count(&mut part.usage, inode, used);
        }
        match inode.file_type {
            Some(FileType::Symlink) => fields.check_symlink(first)?,
            Some(FileType::Directory) => {
                context.budget.take::<Directory>(1)?;
                let is_inline = inode.has(InodeFlags::INLINE_DATA);
                part.directories.push(Directory {
                    inode: inode.number,
                    generation: inode.generation,
                    flags: inode.flags,
                    size_bytes: inode.size_bytes,
                    runs: claims.into_runs().into(),
                    inline: is_inline.then(|| Box::new(inode.clone())),
                });
                context.budget.take::<Inode>(usize::from(is_inline))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if quota counts an inode.
    fn has_quota(&self, inode: &Inode) -> bool {
        !self.hidden.contains(inode.number) && !inode.has(InodeFlags::EA_INODE)
    }

    /// Checks the inode that owns the defective blocks, except for the blocks.
    fn defective(&self, inode: &Inode, raw: &RawInode) {
        let is_unused = raw.i_mode.get() == 0
            && raw.i_links_count.get() == 0
            && inode.uid == 0
            && inode.gid == 0
            && inode.xattr_block == 0
            && !inode.has(InodeFlags::INLINE_DATA);
        if !is_unused {
            let detail = "the inode of the defective blocks has a mode, links, an owner, \
                          attributes or inline data";
            self.context
                .found_in(FindingKind::ReservedInode, inode.number, detail);
        }
    }

    /// Checks a reserved inode.
    fn reserved(
        &self,
        number: u32,
        raw: &RawInode,
        bytes: &[u8],
        part: &mut ScanResult,
    ) -> Result<()> {
        let context = self.context;
        context.inodes.set(number, None, 0, context.budget)?;
        part.statistics.used_inodes = part.statistics.used_inodes.saturating_add(1);
        if number == special::RESIZE {
            special::check_is_used(context, raw);
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        // The inode of defective blocks has no links, as have reserved inodes without contents.
        let mut with_link = bytes.to_vec();
        put(&mut with_link, LINKS_COUNT, &[1, 0]);
        let inode = match Inode::parse_unchecked(context.superblock(), number, &with_link) {
            Ok(Some(inode)) => inode,
            Ok(None) => return Ok(()),
            Err(e) => {
                context.found_in(FindingKind::InodeExtraSize, number, e.to_string());
                return Ok(());
            }
        };
        let fields = InodeFields {
            context,
            inode: &inode,
            raw,
            bytes,
        };
        fields.check_checksum();
        if number == special::BAD_BLOCKS {
            self.defective(&inode, raw);
            return Ok(());
        }
        let has_journal = self.context.superblock().journal_inode == number;
        if number == special::JOURNAL && !has_journal && raw.i_links_count.get() != 0 {
            let detail = "the inode of a journal is in use, but the superblock names no journal";
            context.found_in(FindingKind::ReservedInode, number, detail);
        }
        if raw.i_mode.get() == 0 {
            return Ok(());
        }
        if raw.i_mode.get() != 0 && !inode.is(FileType::Regular) {
            let mode = raw.i_mode.get();
            let detail =
                format!("i_mode of the reserved inode is {mode:#o}, expected a regular file");
            context.found_in(FindingKind::ReservedInode, number, detail);
            return Ok(());
        }
        if number == special::RESIZE {
            return self.resize(&inode);
        }
        self.contents(&fields, part)
    }

    fn resize(&self, inode: &Inode) -> Result<()> {
        let context = self.context;
        let blocks = special::check_resize_inode(context, inode)?;
        let superblock = context.superblock();
        // With bigalloc each block counts as a cluster.
        let clusters = blocks.wrapping_shl(superblock.cluster_ratio_bits);
        let found = superblock.block_size.bytes_of(clusters);
        if blocks > 0 && found != inode.allocated_bytes {
            let stored = inode.allocated_bytes;
            let detail = format!("i_blocks is {stored} bytes, but the inode has {found} bytes");
            context.found_in(FindingKind::InodeBlockCount, inode.number, detail);
        }
        Ok(())
    }

    /// Reports a missing root directory.
    pub(super) fn check_root(&self) {
        let context = self.context;
        let state = context.inodes.get(ROOT);
        if state.is_none_or(|state| state.file_type != Some(FileType::Directory)) {
            let place = FindingPlace::inode(ROOT);
            let detail = "the root inode is not a directory";
            context.found(FindingKind::RootInode, place, detail);
        }
    }
}

/// Checks the attributes and claims their block. Returns the values in other inodes.
fn claim_attributes(
    context: &Context<'_>,
    inode: &Inode,
    claims: &mut Claims<'_>,
) -> Result<ValueInodes> {
    let mut values = attributes::check_in_inode(context, inode);
    if let Some((in_block, is_new)) = attributes::check_in_block(context, inode)? {
        values.add(in_block);
        claims.attribute_block(FsBlock(inode.xattr_block), is_new)?;
    }
    Ok(values)
}
