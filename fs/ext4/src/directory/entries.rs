//! Iteration over the entries of a directory in their order on the device.

use std::ops::Deref;
use std::sync::Arc;

use diskfs_vfs::{DirEntry, InodeNumber};

use crate::block::FileBlock;
use crate::bytes::len_u64;
use crate::error::{Corrupt, InInode, Result};
use crate::file_blocks::runs;
use crate::inode::{Inode, InodeFlags};
use crate::run::Run;
use crate::volume::Volume;

use super::entry::{Entry, problem_of_name};
use super::{block, encrypted_name, inline};

/// Returns the entries from `cookie` on: 0, or the byte offset at which the wanted entry begins in
/// the directory. An entry that has moved since is skipped, and no entry is returned twice.
pub(crate) fn entries<'a>(
    volume: &'a Volume,
    directory: Arc<Inode>,
    cookie: u64,
) -> Result<Box<dyn Iterator<Item = Result<DirEntry>> + Send + 'a>> {
    if directory.has(InodeFlags::INLINE_DATA) {
        let entries = inline::entries(volume, &directory)?;
        let rest = entries.into_iter().filter(move |entry| match entry {
            Ok(entry) => entry.cookie > cookie,
            Err(_) => true,
        });
        return Ok(Box::new(rest));
    }
    Ok(Box::new(Entries {
        regions: Regions::new(volume, Arc::clone(&directory), cookie)?,
        volume,
        directory,
        current: None,
        cookie,
    }))
}

/// A block of a directory.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) block: FileBlock,
    /// The byte offset in the directory where the block begins.
    pub(super) start: u64,
    pub(super) bytes: Arc<[u8]>,
}

/// The blocks of a directory that is not inline, in order. Holes are left out, as in the kernel.
/// The iterator ends after the first error.
#[derive(Debug)]
pub(super) struct Regions<'a, D> {
    volume: &'a Volume,
    directory: D,
    /// The block to read next.
    next: u64,
    end: u64,
    /// The rest of the run that contains the last block.
    run: Option<Run>,
}

impl<'a, D: Deref<Target = Inode>> Regions<'a, D> {
    /// Returns the blocks from the one that contains byte `from` on.
    pub(super) fn new(volume: &'a Volume, directory: D, from: u64) -> Result<Self> {
        let end = block::len_blocks(volume, &directory)?;
        let first = volume.superblock.block_size.file_block_at(from);
        Ok(Self {
            next: first.map_or(end, |block| u64::from(block.0)),
            volume,
            directory,
            end,
            run: None,
        })
    }

    fn advance(&mut self) -> Result<Option<Region>> {
        let Some(run) = self.run_at_next()? else {
            return Ok(None);
        };
        self.run = Some(run);
        self.next = u64::from(run.file_block.0).saturating_add(1);
        let bytes = block::read_first(self.volume, &self.directory, run)?;
        Ok(Some(Region {
            block: run.file_block,
            start: block::start_of(self.volume, run.file_block),
            bytes,
        }))
    }

    /// Returns the written run from the next block on, up to its end.
    fn run_at_next(&mut self) -> Result<Option<Run>> {
        while self.next < self.end {
            let next = FileBlock(u32::try_from(self.next).unwrap_or(u32::MAX));
            let run = match self.run.take().and_then(|run| run.starting_at(next)) {
                Some(run) => Some(run),
                None => runs(self.volume, &self.directory, next)
                    .next()
                    .transpose()?,
            };
            match run.and_then(|run| run.ending_at(self.end)) {
                None => break,
                Some(run) if run.written => return Ok(Some(run)),
                Some(unwritten) => self.next = unwritten.end(),
            }
        }
        Ok(None)
    }
}

impl<D: Deref<Target = Inode>> Iterator for Regions<'_, D> {
    type Item = Result<Region>;

    fn next(&mut self) -> Option<Self::Item> {
        let region = self.advance().transpose();
        if !matches!(region, Some(Ok(_))) {
            self.next = self.end;
        }
        region
    }
}

/// The iterator of [`entries`].
#[derive(Debug)]
struct Entries<'a> {
    volume: &'a Volume,
    directory: Arc<Inode>,
    regions: Regions<'a, Arc<Inode>>,
    /// The current block, and the byte offset in it at which the next entry begins.
    current: Option<(Region, usize)>,
    /// The offset of the first entry to return; entries before it were seen.
    cookie: u64,
}

impl Entries<'_> {
    fn advance(&mut self) -> Result<Option<DirEntry>> {
        loop {
            let (region, offset) = match self.current.take() {
                Some(current) => current,
                None => match self.regions.next().transpose()? {
                    Some(region) => (region, 0),
                    None => return Ok(None),
                },
            };
            if offset >= region.bytes.len() {
                continue;
            }
            let start = region.start.saturating_add(len_u64(offset));
            let (found, end) = entry_at(self.volume, &self.directory, &region, offset)?;
            self.current = Some((region, end));
            if let Some(found) = found
                && start >= self.cookie
            {
                return Ok(Some(found));
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.advance().transpose();
        if !matches!(entry, Some(Ok(_))) {
            self.current = None;
            self.regions.next = self.regions.end;
        }
        entry
    }
}

/// Returns the entry at a byte of a block, or `None` if it is not in use, and where the next entry
/// begins.
fn entry_at(
    volume: &Volume,
    directory: &Inode,
    region: &Region,
    offset: usize,
) -> Result<(Option<DirEntry>, usize)> {
    let start = region.start.saturating_add(len_u64(offset));
    let entry = Entry::parse(&volume.superblock, &region.bytes, offset)
        .map_err(|problem| broken(start, problem))
        .in_inode(directory.number)?;
    let cookie = region.start.saturating_add(len_u64(entry.end));
    let found = dir_entry(volume, directory, entry, start, cookie)?;
    Ok((found, entry.end))
}

/// Returns an entry in the form in which it is shown, or `None` if it is not in use.
pub(super) fn dir_entry(
    volume: &Volume,
    directory: &Inode,
    entry: Entry<'_>,
    start: u64,
    cookie: u64,
) -> Result<Option<DirEntry>> {
    if entry.inode == 0 {
        return Ok(None);
    }
    let name = encrypted_name::displayed(volume, directory, entry.name).into_owned();
    if let Some(problem) = problem_of_name(&name) {
        return Err(broken(start, problem)).in_inode(directory.number);
    }
    Ok(Some(DirEntry {
        name,
        inode: InodeNumber(u64::from(entry.inode)),
        file_type: entry.file_type,
        cookie,
    }))
}

pub(super) fn broken(start: u64, problem: &'static str) -> Corrupt {
    Corrupt::DirectoryEntry {
        entry: start,
        problem,
    }
}
