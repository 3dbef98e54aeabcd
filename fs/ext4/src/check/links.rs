//! Link counts: each inode has as many names as it counts.

use std::sync::atomic::Ordering;

use diskfs_vfs::FileType;

use super::directories::DirectoryPass;
use super::finding::FindingKind;
use crate::error::Result;
use crate::features::{Compatible, ReadOnlyCompatible};
use crate::inode::{InodeFlags, ROOT};
use crate::inode_table;

/// `EXT4_LINK_MAX`: a directory with more links counts 1.
const LINKS_MAX: i64 = 65000;

/// Checks the link counts of a group.
pub(super) fn check(pass: &DirectoryPass<'_>, group: u32) -> Result<()> {
    let context = pass.context;
    for inode in context.inodes.miscounted(group) {
        check_inode(pass, inode);
    }
    context.progress.advance()
}

fn check_inode(pass: &DirectoryPass<'_>, number: u32) {
    let context = pass.context;
    if context.is_in_defective_block(number) {
        return;
    }
    let missing = context.inodes.missing_links(number);
    // The inode is damaged if it cannot be read, which was reported.
    let Ok(Some(inode)) = inode_table::read(context.volume, number) else {
        return;
    };
    let stored = i64::from(inode.links);
    let found = stored.saturating_sub(missing);
    let is_directory = inode.is(FileType::Directory);
    let features = context.superblock().features;
    if inode.has(InodeFlags::IMAGIC) && features.has(Compatible::IMAGIC_INODES) {
        // A program opens such an inode by its number.
        return;
    }
    if is_directory && stored == 1 && features.has(ReadOnlyCompatible::DIR_NLINK) {
        return;
    }
    if is_directory && found > LINKS_MAX && stored == 1 {
        return;
    }
    if context.orphans.contains(&number) && stored == 0 {
        return;
    }
    if found <= 0 && !is_directory {
        let detail =
            format!("no directory has an entry of the inode, but it counts {stored} links");
        context.found_in(FindingKind::UnattachedInode, number, detail);
        return;
    }
    if is_directory && is_unreachable(pass, number) {
        return;
    }
    let detail = format!("the inode counts {stored} links, expected {found}");
    context.found_in(FindingKind::LinkCount, number, detail);
}

/// Returns true if no entry refers to a directory, which was reported.
fn is_unreachable(pass: &DirectoryPass<'_>, number: u32) -> bool {
    let parents = pass
        .position(number)
        .and_then(|position| pass.parents.get(position));
    number != ROOT && parents.is_none_or(|parents| parents.by_name.load(Ordering::Relaxed) == 0)
}
