//! What reading and writing have in common: the structures of one filesystem, and the way from a
//! number to a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::BlockRead;
use diskfs_clusters::{Chain, Cluster, Numbers, ROOT, Sectors};
use diskfs_vfs::InodeNumber;
use foldhash::HashMap;

use crate::boot_sector::{BootSector, RootDirectory, STATE_DIRTY};
use crate::bytes::len_u64;
use crate::code_page::CodePage;
use crate::directory::{Directory, MAX_SLOTS};
use crate::directory_entry::{DIRECTORY, ENTRY_BYTES, Place, ShortEntry};
use crate::error::{Corrupt, Error, ErrorKind, Result};
use crate::fat::{FatEntry, FatTable, clean_bit};

/// The runs of all chains that are kept: 12 bytes each.
const MAX_RUNS: u64 = 256 * 1024;
/// What the names of the directories that are kept may take, in bytes.
const DIRECTORIES_BYTES: u64 = 16 << 20;
/// How deep directories are followed upwards. A path of 4096 bytes is half as deep.
const MAX_DEPTH: usize = 4096;

/// Where a directory begins: 0 is the root, in all three kinds, as in the entry `..`.
pub(crate) type DirectoryStart = Cluster;
pub(crate) const ROOT_START: DirectoryStart = Cluster(0);

/// The filesystem.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockRead>,
    pub(crate) boot: BootSector,
    pub(crate) fat: FatTable,
    pub(crate) code_page: CodePage,
    pub(crate) sectors: Sectors,
    pub(crate) numbers: Numbers,
    /// Files without a name that somebody holds.
    pub(crate) nameless: HashMap<InodeNumber, ShortEntry>,
    chains: Mutex<Chains>,
    directories: Mutex<Directories>,
    /// Where the entries of directories are that were seen.
    parents: Mutex<HashMap<DirectoryStart, Place>>,
    free_clusters: Mutex<Option<u32>>,
    /// It was not cleanly unmounted.
    pub(crate) was_dirty: bool,
}

#[derive(Debug, Default)]
struct Chains {
    by_first: HashMap<Cluster, Arc<Chain>>,
    runs: u64,
    /// Some differ from what the table says, and must stay.
    pinned: bool,
}

#[derive(Debug, Default)]
struct Directories {
    by_start: HashMap<DirectoryStart, Arc<Directory>>,
    cost: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Volume {
    pub(crate) fn open(device: Arc<dyn BlockRead>, code_page: CodePage) -> Result<Self> {
        let boot = BootSector::read(&*device)?;
        let fat = FatTable::new(Arc::clone(&device), &boot);
        let clean = clean_bit(boot.kind);
        Ok(Self {
            was_dirty: boot.state & STATE_DIRTY != 0
                || (clean != 0 && fat.raw(Cluster(1))? & clean == 0),
            fat,
            code_page,
            sectors: Sectors::new(Arc::clone(&device), boot.sector_bytes),
            numbers: Numbers::default(),
            nameless: HashMap::default(),
            chains: Mutex::default(),
            directories: Mutex::default(),
            parents: Mutex::default(),
            free_clusters: Mutex::default(),
            device,
            boot,
        })
    }

    /// The entry of a file that is not the root.
    pub(crate) fn entry(&self, inode: InodeNumber) -> Result<ShortEntry> {
        if let Some(entry) = self.nameless.get(&inode) {
            return Ok(*entry);
        }
        let place = self.place(inode)?;
        let entry = ShortEntry::read(&self.sectors, place)?;
        if entry.is_file() {
            return Ok(entry);
        }
        Err(no_such_file(inode))
    }

    /// Where the entry of a file with a name is.
    pub(crate) fn place(&self, inode: InodeNumber) -> Result<Place> {
        let place = self
            .numbers
            .place(inode)
            .filter(|place| self.may_hold_entry(*place));
        place.ok_or_else(|| no_such_file(inode))
    }

    fn may_hold_entry(&self, place: Place) -> bool {
        let first = match self.boot.root {
            RootDirectory::Fixed { offset, .. } => offset,
            RootDirectory::Chain { .. } => self.boot.data_offset,
        };
        let data = self.boot.bytes_of(self.boot.clusters);
        (first..self.boot.data_offset.saturating_add(data)).contains(&place.offset())
    }

    /// A regular file's entry.
    pub(crate) fn file(&self, inode: InodeNumber) -> Result<ShortEntry> {
        let is_directory = || Error::from(ErrorKind::IsADirectory).in_inode(inode);
        if inode == ROOT {
            return Err(is_directory());
        }
        let entry = self.entry(inode)?;
        if entry.is_directory() {
            return Err(is_directory());
        }
        Ok(entry)
    }

    /// Where a directory begins.
    pub(crate) fn start_of(&self, inode: InodeNumber) -> Result<DirectoryStart> {
        if inode == ROOT {
            return Ok(ROOT_START);
        }
        let entry = self.entry(inode)?;
        if !entry.is_directory() {
            return Err(Error::from(ErrorKind::NotADirectory).in_inode(inode));
        }
        match entry.cluster() {
            Cluster(0) => Err(Error::from(Corrupt::EmptyDirectory).in_inode(inode)),
            start => Ok(start),
        }
    }

    /// The chain that begins with a cluster.
    pub(crate) fn chain(&self, first: Cluster) -> Result<Arc<Chain>> {
        if let Some(chain) = lock(&self.chains).by_first.get(&first) {
            return Ok(Arc::clone(chain));
        }
        self.boot.check_first(first)?;
        let chain = Arc::new(self.fat.chain(first)?);
        self.keep_chain(first, Arc::clone(&chain));
        Ok(chain)
    }

    /// Keeps a chain in mind, in the place of what was known of it.
    pub(crate) fn keep_chain(&self, first: Cluster, chain: Arc<Chain>) {
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

    /// Forgets a chain.
    pub(crate) fn forget_chain(&self, first: Cluster) {
        let mut chains = lock(&self.chains);
        if let Some(old) = chains.by_first.remove(&first) {
            chains.runs = chains.runs.saturating_sub(len_u64(old.runs().len()));
        }
    }

    /// From now on (or no more) there are chains that differ from what the table says.
    pub(crate) fn pin_chains(&self, pinned: bool) {
        lock(&self.chains).pinned = pinned;
    }

    /// The chain of a file; empty without a cluster.
    pub(crate) fn chain_of(&self, entry: &ShortEntry) -> Result<Arc<Chain>> {
        match entry.cluster() {
            Cluster(0) => Ok(Arc::default()),
            first => self.chain(first),
        }
    }

    /// The chain of a directory; `None` for a root that has none.
    pub(crate) fn directory_chain(&self, start: DirectoryStart) -> Result<Option<Arc<Chain>>> {
        match (start, self.boot.root) {
            (ROOT_START, RootDirectory::Fixed { .. }) => Ok(None),
            (ROOT_START, RootDirectory::Chain { first }) | (first, _) => {
                self.chain(first).map(Some)
            }
        }
    }

    /// The names of a directory.
    pub(crate) fn directory(&self, start: DirectoryStart) -> Result<Arc<Directory>> {
        if let Some(directory) = lock(&self.directories).by_start.get(&start) {
            return Ok(Arc::clone(directory));
        }
        let runs = self.directory_runs(start)?;
        let directory = Directory::read(&self.sectors, &runs, self.code_page)?;
        for (_, name) in directory
            .names_from(0)
            .filter(|(_, name)| name.is_directory)
        {
            let entry = ShortEntry::read(&self.sectors, name.place)?;
            lock(&self.parents).insert(entry.cluster(), name.place);
        }
        let directory = Arc::new(directory);
        let mut kept = lock(&self.directories);
        if kept.cost > DIRECTORIES_BYTES {
            kept.by_start.clear();
            kept.cost = 0;
        }
        kept.cost = kept.cost.saturating_add(directory.cost());
        kept.by_start.insert(start, Arc::clone(&directory));
        Ok(directory)
    }

    /// Where a directory's entries are: offset and length of each run, in bytes.
    fn directory_runs(&self, start: DirectoryStart) -> Result<Vec<(u64, u64)>> {
        let Some(chain) = self.directory_chain(start)? else {
            return Ok(match self.boot.root {
                RootDirectory::Fixed { offset, entries } => {
                    vec![(offset, u64::from(entries).saturating_mul(ENTRY_BYTES))]
                }
                RootDirectory::Chain { .. } => Vec::new(),
            });
        };
        let mut left = u64::from(MAX_SLOTS).saturating_mul(ENTRY_BYTES);
        let runs = chain.runs().iter().map(|run| {
            let len_bytes = self.boot.bytes_of(run.count).min(left);
            left = left.saturating_sub(len_bytes);
            (self.boot.offset_of(run.first), len_bytes)
        });
        Ok(runs.filter(|(_, len_bytes)| *len_bytes > 0).collect())
    }

    /// Changes what is known of a directory.
    pub(crate) fn change_directory<T>(
        &self,
        start: DirectoryStart,
        change: impl FnOnce(&mut Directory) -> T,
    ) -> Result<T> {
        let mut directory = self.directory(start)?;
        // One of the two goes, so that the other is changed in place.
        lock(&self.directories).by_start.remove(&start);
        let result = change(Arc::make_mut(&mut directory));
        lock(&self.directories).by_start.insert(start, directory);
        Ok(result)
    }

    /// Forgets a directory that is gone.
    pub(crate) fn forget_directory(&self, start: DirectoryStart) {
        let mut kept = lock(&self.directories);
        if let Some(old) = kept.by_start.remove(&start) {
            kept.cost = kept.cost.saturating_sub(old.cost());
        }
        lock(&self.parents).remove(&start);
    }

    /// Says where a directory's entry is.
    pub(crate) fn set_parent_place(&self, start: DirectoryStart, place: Place) {
        lock(&self.parents).insert(start, place);
    }

    /// Where the directory above one begins.
    pub(crate) fn above(&self, start: DirectoryStart) -> Result<DirectoryStart> {
        if start == ROOT_START {
            return Ok(ROOT_START);
        }
        self.boot.check_first(start)?;
        let entry = ShortEntry::read(&self.sectors, self.dot_dot_place(start))?;
        let above = entry.cluster();
        let is_root = matches!(self.boot.root, RootDirectory::Chain { first } if first == above);
        match above {
            _ if entry.name != *b"..         " || entry.attributes & DIRECTORY == 0 => {
                Err(Corrupt::DotDot { cluster: above }.into())
            }
            _ if is_root => Ok(ROOT_START),
            above => Ok(above),
        }
    }

    /// The place of a directory's entry `..`: its second.
    pub(crate) fn dot_dot_place(&self, start: DirectoryStart) -> Place {
        Place::at(self.boot.offset_of(start).saturating_add(ENTRY_BYTES))
    }

    /// The number of the directory that begins there.
    pub(crate) fn number_of(&self, start: DirectoryStart) -> Result<InodeNumber> {
        if start == ROOT_START {
            return Ok(ROOT);
        }
        let known = || lock(&self.parents).get(&start).copied();
        let place = if let Some(place) = known() {
            Some(place)
        } else {
            // Reading the directory that it is in tells it.
            self.directory(self.above(start)?)?;
            known()
        };
        let place = place.ok_or(Corrupt::DotDot { cluster: start })?;
        Ok(self.numbers.of(place))
    }

    /// Whether `start` is the directory `below`, or one above it.
    pub(crate) fn is_at_or_above(
        &self,
        start: DirectoryStart,
        below: DirectoryStart,
    ) -> Result<bool> {
        let mut at = below;
        for _ in 0..MAX_DEPTH {
            if at == start {
                return Ok(true);
            }
            if at == ROOT_START {
                return Ok(false);
            }
            at = self.above(at)?;
        }
        Err(Corrupt::TooDeep(MAX_DEPTH).into())
    }

    /// How many clusters are free, as the table says: counted once.
    pub(crate) fn free_clusters(&self) -> Result<u32> {
        let mut known = lock(&self.free_clusters);
        if let Some(count) = *known {
            return Ok(count);
        }
        let mut count: u32 = 0;
        self.fat.for_each(|_, entry| {
            count = count.saturating_add(u32::from(entry == FatEntry::Free));
        })?;
        *known = Some(count);
        Ok(count)
    }
}

pub(crate) fn no_such_file(inode: InodeNumber) -> Error {
    Error::new(ErrorKind::NotFound, "no such file").in_inode(inode)
}
