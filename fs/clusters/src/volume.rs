//! The common part of reading and writing: the structures of an open filesystem, and the lookup of
//! files by inode number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::BlockRead;
use diskfs_block::bytes::len_u64;
use diskfs_vfs::{Error, ErrorKind, FreeRanges, InodeNumber, Result};
use foldhash::HashMap;

use crate::chain::{Chain, Cluster};
use crate::directory::{Directory, Name};
use crate::error::Corrupt;
use crate::format::{FileRecord, Format};
use crate::geometry::{Geometry, Root};
use crate::name::keys_to_find;
use crate::numbers::{Numbers, ROOT};
use crate::place::{ENTRY_BYTES, EntryPlace};
use crate::sectors::Sectors;

/// The maximum number of runs of all cached chains; 12 bytes each.
const MAX_RUNS: u64 = 256 * 1024;
/// The maximum memory for the names of all cached directories, in bytes.
const DIRECTORIES_BYTES: u64 = 16 << 20;
/// The maximum number of parents to follow from a directory. A path of 4096 bytes is half as deep.
const MAX_DEPTH: usize = 4096;

/// An open filesystem of the FAT family.
#[derive(Debug)]
pub struct Volume<F: Format> {
    pub(crate) device: Arc<dyn BlockRead>,
    pub(crate) format: F,
    pub(crate) sectors: Sectors,
    pub(crate) numbers: Numbers,
    /// Open files that have no name any more.
    pub(crate) nameless: HashMap<InodeNumber, F::Record>,
    chains: Mutex<Chains>,
    directories: Mutex<Directories>,
    /// The parent of each directory that a listing has shown.
    parents: Mutex<HashMap<InodeNumber, InodeNumber>>,
    free_clusters: Mutex<Option<u32>>,
}

#[derive(Debug, Default)]
struct Chains {
    by_first: HashMap<Cluster, Arc<Chain>>,
    runs: u64,
    /// True if some chains differ from the table and must stay in memory.
    pinned: bool,
}

#[derive(Debug, Default)]
struct Directories {
    by_number: HashMap<InodeNumber, Arc<Directory>>,
    cost: u64,
}

/// The clusters of a directory. The root of FAT12 and FAT16 has none.
#[derive(Debug)]
pub(crate) struct DirectorySpan {
    pub(crate) chain: Arc<Chain>,
    /// The length of the directory in bytes.
    pub(crate) len_bytes: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: Format> Volume<F> {
    pub(crate) fn open(device: Arc<dyn BlockRead>, names: &F::Names) -> Result<Self> {
        let format = F::open(&device, names)?;
        let sector_bytes = format.geometry().sector_bytes;
        Ok(Self {
            sectors: Sectors::new(Arc::clone(&device), sector_bytes),
            format,
            numbers: Numbers::default(),
            nameless: HashMap::default(),
            chains: Mutex::default(),
            directories: Mutex::default(),
            parents: Mutex::default(),
            free_clusters: Mutex::default(),
            device,
        })
    }

    /// Returns the driver's structures on the device.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// Returns the cache of directory sectors.
    pub fn sectors(&self) -> &Sectors {
        &self.sectors
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.format.geometry()
    }

    /// Returns the record of a file that is not the root.
    pub(crate) fn record(&self, inode: InodeNumber) -> Result<F::Record> {
        if let Some(record) = self.nameless.get(&inode) {
            return Ok(record.clone());
        }
        let record = self.format.read_record(&self.sectors, self.place(inode)?);
        let record = record.map_err(|e| e.in_inode(inode))?;
        record.ok_or_else(|| no_such_file(inode))
    }

    /// Returns the place of the head entry of a file that has a name.
    pub(crate) fn place(&self, inode: InodeNumber) -> Result<EntryPlace> {
        let place = self.numbers.place(inode);
        let place = place.filter(|place| self.may_hold_entry(*place));
        place.ok_or_else(|| no_such_file(inode))
    }

    fn may_hold_entry(&self, place: EntryPlace) -> bool {
        let geometry = self.geometry();
        let first = match geometry.root {
            Root::Fixed { offset, .. } => offset,
            Root::Chain { .. } => geometry.first_offset,
        };
        let data = geometry.bytes_of(geometry.clusters);
        (first..geometry.first_offset.saturating_add(data)).contains(&place.offset())
    }

    /// Returns the record of a regular file.
    pub(crate) fn file(&self, inode: InodeNumber) -> Result<F::Record> {
        let is_directory = || Error::from(ErrorKind::IsADirectory).in_inode(inode);
        if inode == ROOT {
            return Err(is_directory());
        }
        let record = self.record(inode)?;
        if record.is_directory() {
            return Err(is_directory());
        }
        Ok(record)
    }

    /// Returns the clusters of a file. They may be more than its size needs or, on a damaged
    /// filesystem, fewer.
    pub(crate) fn chain_of(&self, record: &F::Record) -> Result<Arc<Chain>> {
        let Some(first) = record.first() else {
            return Ok(Arc::default());
        };
        if record.is_contiguous() {
            let mut chain = Chain::default();
            chain.push(first, self.geometry().clusters_for(record.size()));
            return Ok(Arc::new(chain));
        }
        self.chain(first)
    }

    /// Returns the clusters of a file. Fails if they are fewer than its size needs.
    pub(crate) fn whole_chain(&self, record: &F::Record) -> Result<Arc<Chain>> {
        let chain = self.chain_of(record)?;
        if chain.clusters() < self.geometry().clusters_for(record.size()) {
            return Err(short_chain(record, &chain).into());
        }
        Ok(chain)
    }

    /// Returns the chain that starts with a cluster, as the table has it.
    fn chain(&self, first: Cluster) -> Result<Arc<Chain>> {
        if let Some(chain) = lock(&self.chains).by_first.get(&first) {
            return Ok(Arc::clone(chain));
        }
        self.geometry().check_first(first)?;
        let chain = Arc::new(self.format.chain(first)?);
        self.cache_chain(first, Arc::clone(&chain));
        Ok(chain)
    }

    /// Puts a chain into the cache, and replaces what the cache had for it.
    pub(crate) fn cache_chain(&self, first: Cluster, chain: Arc<Chain>) {
        let mut chains = lock(&self.chains);
        if chains.runs > MAX_RUNS && !chains.pinned {
            chains.by_first.clear();
            chains.runs = 0;
        }
        let runs = len_u64(chain.runs().len());
        chains.runs = chains.runs.saturating_add(runs);
        if let Some(old) = chains.by_first.insert(first, chain) {
            chains.runs = chains.runs.saturating_sub(len_u64(old.runs().len()));
        }
    }

    /// Removes a chain from the cache.
    pub(crate) fn forget_chain(&self, first: Cluster) {
        let mut chains = lock(&self.chains);
        if let Some(old) = chains.by_first.remove(&first) {
            chains.runs = chains.runs.saturating_sub(len_u64(old.runs().len()));
        }
    }

    /// Sets whether some cached chains differ from the table and must stay in memory.
    pub(crate) fn pin_chains(&self, pinned: bool) {
        lock(&self.chains).pinned = pinned;
    }

    /// Returns the clusters and the length of a directory.
    pub(crate) fn directory_span(&self, dir: InodeNumber) -> Result<DirectorySpan> {
        let whole = |chain: Arc<Chain>| DirectorySpan {
            len_bytes: self.geometry().bytes_of(chain.clusters()),
            chain,
        };
        if dir == ROOT {
            return match self.geometry().root {
                Root::Chain { first } => self.chain(first).map(whole),
                Root::Fixed { entries, .. } => Ok(DirectorySpan {
                    chain: Arc::default(),
                    len_bytes: u64::from(entries).saturating_mul(ENTRY_BYTES),
                }),
            };
        }
        let record = self.record(dir)?;
        if !record.is_directory() {
            return Err(Error::from(ErrorKind::NotADirectory).in_inode(dir));
        }
        let chain = self.whole_chain(&record).map_err(|e| e.in_inode(dir))?;
        Ok(match record.size() {
            0 => whole(chain),
            len_bytes => DirectorySpan { chain, len_bytes },
        })
    }

    /// Returns the location of a directory's entries: offset and length of each run, in bytes.
    fn runs(&self, dir: InodeNumber, span: &DirectorySpan) -> Vec<(u64, u64)> {
        let geometry = self.geometry();
        if let (ROOT, Root::Fixed { offset, .. }) = (dir, geometry.root) {
            return vec![(offset, span.len_bytes)];
        }
        let len_bytes = span.len_bytes.min(F::MAX_DIRECTORY_BYTES);
        geometry.runs(
            &span.chain,
            len_bytes.saturating_sub(len_bytes % ENTRY_BYTES),
        )
    }

    /// Returns the location of the root directory's entries: offset and length of each run, in
    /// bytes.
    pub fn root_runs(&self) -> Result<Vec<(u64, u64)>> {
        Ok(self.runs(ROOT, &self.directory_span(ROOT)?))
    }

    /// Returns the names of a directory.
    pub(crate) fn directory(&self, dir: InodeNumber) -> Result<Arc<Directory>> {
        if let Some(directory) = lock(&self.directories).by_number.get(&dir) {
            return Ok(Arc::clone(directory));
        }
        let span = self.directory_span(dir)?;
        self.format.note_directory(&span.chain);
        let runs = self.runs(dir, &span);
        let directory = Arc::new(self.format.list(&self.sectors, &runs)?);
        let names = directory.names_from(0);
        for (_, name) in names.filter(|(_, name)| name.is_directory) {
            self.set_parent(self.numbers.of(name.place), dir);
        }
        let mut kept = lock(&self.directories);
        if kept.cost > DIRECTORIES_BYTES {
            kept.by_number.clear();
            kept.cost = 0;
        }
        kept.cost = kept.cost.saturating_add(directory.cost());
        kept.by_number.insert(dir, Arc::clone(&directory));
        Ok(directory)
    }

    /// Changes the cached names of a directory.
    pub(crate) fn change_directory<T>(
        &self,
        dir: InodeNumber,
        change: impl FnOnce(&mut Directory) -> T,
    ) -> Result<T> {
        let mut directory = self.directory(dir)?;
        // Drop the cache's reference, so that the directory is changed in place and not copied.
        lock(&self.directories).by_number.remove(&dir);
        let result = change(Arc::make_mut(&mut directory));
        lock(&self.directories).by_number.insert(dir, directory);
        Ok(result)
    }

    /// Removes a deleted directory from the caches.
    pub(crate) fn forget_directory(&self, dir: InodeNumber) {
        let mut kept = lock(&self.directories);
        if let Some(old) = kept.by_number.remove(&dir) {
            kept.cost = kept.cost.saturating_sub(old.cost());
        }
        lock(&self.parents).remove(&dir);
    }

    /// Records the parent of a directory.
    pub(crate) fn set_parent(&self, dir: InodeNumber, parent: InodeNumber) {
        lock(&self.parents).insert(dir, parent);
    }

    /// Returns the parent of a directory. Fails for a directory that no listing has shown.
    pub(crate) fn parent(&self, dir: InodeNumber) -> Result<InodeNumber> {
        if dir == ROOT {
            return Ok(ROOT);
        }
        let parent = lock(&self.parents).get(&dir).copied();
        parent.ok_or_else(|| no_such_file(dir))
    }

    /// Returns true if `dir` is the directory `below` or one of its ancestors.
    pub(crate) fn is_at_or_above(&self, dir: InodeNumber, below: InodeNumber) -> Result<bool> {
        let mut at = below;
        for _ in 0..MAX_DEPTH {
            if at == dir {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            at = self.parent(at)?;
        }
        Err(Corrupt::TooDeep(MAX_DEPTH).into())
    }

    /// Returns the directory's entry for `name`, and the slot of its head.
    pub(crate) fn find<'a>(
        &self,
        directory: &'a Directory,
        name: &[u8],
    ) -> Option<(u32, &'a Name)> {
        let keys = keys_to_find(name, |units| self.format.fold(units));
        keys.iter().flatten().find_map(|key| directory.find(key))
    }

    /// Returns the ranges of the device that the free clusters occupy.
    pub(crate) fn free_ranges(&self) -> Result<FreeRanges<'_>> {
        let allocation = self.format.read_allocation(&*self.device)?;
        let geometry = self.geometry();
        Ok(Box::new(allocation.into_free_runs().map(
            |(first, count)| {
                let start = geometry.offset_of(first);
                Ok(start..start.saturating_add(geometry.bytes_of(count)))
            },
        )))
    }

    /// Returns the number of free clusters on the device. They are counted once.
    pub(crate) fn free_clusters(&self) -> Result<u32> {
        let mut known = lock(&self.free_clusters);
        if let Some(count) = *known {
            return Ok(count);
        }
        let count = self.format.count_free(&*self.device)?;
        *known = Some(count);
        Ok(count)
    }
}

/// Returns the error for a file with fewer clusters than its size needs.
pub(crate) fn short_chain(record: &impl FileRecord, chain: &Chain) -> Corrupt {
    Corrupt::ShortChain {
        first: record.first().unwrap_or(Cluster(0)),
        clusters: chain.clusters(),
    }
}

pub(crate) fn no_such_file(inode: InodeNumber) -> Error {
    Error::new(ErrorKind::NotFound, "no such file").in_inode(inode)
}
