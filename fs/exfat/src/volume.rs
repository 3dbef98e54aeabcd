//! What reading and writing have in common: the structures of one filesystem, and the way from a
//! number to a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::BlockRead;
use diskfs_clusters::{Chain, Cluster, ENTRY_BYTES, Numbers, Place, ROOT, Sectors};
use diskfs_vfs::InodeNumber;
use foldhash::HashMap;

use crate::allocation_bitmap::BitmapPlace;
use crate::boot_sector::BootSector;
use crate::bytes::len_u64;
use crate::directory::{Directory, MAX_BYTES, Name};
use crate::directory_entry::{FILE, FileEntry, StreamExtension};
use crate::entry_set::{EntrySet, SECONDARY_COUNTS};
use crate::error::{Corrupt, Error, ErrorKind, Result};
use crate::fat::FatTable;
use crate::root_entries::RootEntries;
use crate::upcase_table::UpcaseTable;

/// The runs of all chains that are kept: 12 bytes each.
const MAX_RUNS: u64 = 256 * 1024;
/// What the names of the directories that are kept may take, in bytes.
const DIRECTORIES_BYTES: u64 = 16 << 20;
/// How deep directories are followed upwards. A path of 4096 bytes is half as deep.
const MAX_DEPTH: usize = 4096;

/// The filesystem.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockRead>,
    pub(crate) boot: BootSector,
    pub(crate) fat: FatTable,
    pub(crate) bitmap: BitmapPlace,
    pub(crate) upcase: UpcaseTable,
    /// Why the table of the device is not used.
    pub(crate) upcase_damage: Option<Error>,
    pub(crate) label: String,
    pub(crate) sectors: Sectors,
    pub(crate) numbers: Numbers,
    /// Files without a name that somebody holds.
    pub(crate) nameless: HashMap<InodeNumber, EntrySet>,
    chains: Mutex<Chains>,
    directories: Mutex<Directories>,
    /// The directory above each directory that was seen: nothing on the device tells it.
    parents: Mutex<HashMap<InodeNumber, InodeNumber>>,
    /// Where directories go on that are not in one piece: the cluster after a cluster.
    joints: Mutex<HashMap<Cluster, Cluster>>,
    free_clusters: Mutex<Option<u32>>,
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
    by_number: HashMap<InodeNumber, Arc<Directory>>,
    cost: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Volume {
    pub(crate) fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let boot = BootSector::read(&*device)?;
        let fat = FatTable::new(Arc::clone(&device), &boot);
        let sectors = Sectors::new(Arc::clone(&device), boot.sector_bytes);
        let root = fat.chain(boot.root)?;
        let root = RootEntries::read(&sectors, &directory_runs(&boot, &root, MAX_BYTES), &boot)?;
        let (bitmap, len_bytes) = root.bitmap(&boot)?;
        let (upcase, upcase_damage) = root.upcase_table(&*device, &boot, &fat)?;
        Ok(Self {
            bitmap: BitmapPlace::new(&boot, &fat.chain(bitmap)?, len_bytes)?,
            upcase,
            upcase_damage,
            label: root.label(),
            fat,
            sectors,
            numbers: Numbers::default(),
            nameless: HashMap::default(),
            chains: Mutex::default(),
            directories: Mutex::default(),
            parents: Mutex::default(),
            joints: Mutex::default(),
            free_clusters: Mutex::default(),
            device,
            boot,
        })
    }

    /// The entries of a file that is not the root.
    pub(crate) fn set(&self, inode: InodeNumber) -> Result<EntrySet> {
        if let Some(set) = self.nameless.get(&inode) {
            return Ok(set.clone());
        }
        let place = self.place(inode)?;
        let first = FileEntry::from_bytes(self.sectors.entry(place)?);
        if first.entry_type != FILE || !SECONDARY_COUNTS.contains(&first.secondary_count) {
            return Err(no_such_file(inode));
        }
        let mut entries = vec![first.to_bytes()];
        let mut at = place;
        for _ in 0..first.secondary_count {
            at = self.next_place(at)?;
            entries.push(self.sectors.entry(at)?);
        }
        let set = EntrySet::from_entries(&entries);
        let set = set.and_then(|set| {
            set.check()
                .and(self.check_stream(&set.stream))
                .map(|()| set)
        });
        set.map_err(|e| e.in_inode(inode))
    }

    /// Where the first entry of a file with a name is.
    pub(crate) fn place(&self, inode: InodeNumber) -> Result<Place> {
        let place = self
            .numbers
            .place(inode)
            .filter(|place| self.may_hold_entry(*place));
        place.ok_or_else(|| no_such_file(inode))
    }

    fn may_hold_entry(&self, place: Place) -> bool {
        let first = self.boot.heap_offset;
        let data = self.boot.bytes_of(self.boot.clusters);
        (first..first.saturating_add(data)).contains(&place.offset())
    }

    /// Where the entry behind one is, in the same directory.
    pub(crate) fn next_place(&self, place: Place) -> Result<Place> {
        let next = Place(place.0.saturating_add(1));
        let within = next.offset().saturating_sub(self.boot.heap_offset);
        if within.checked_rem(self.boot.cluster_bytes.into()) != Some(0) {
            return Ok(next);
        }
        // The number of clusters before it is the number of the cluster that it is in, less one.
        let behind = Cluster(self.boot.clusters_for(within)).plus(1);
        let Some(cluster) = lock(&self.joints).get(&behind).copied() else {
            self.boot.check_first(behind.plus(1))?;
            return Ok(next);
        };
        Ok(Place::at(self.boot.offset_of(cluster)))
    }

    fn check_stream(&self, stream: &StreamExtension) -> Result<()> {
        let heap_bytes = self.boot.bytes_of(self.boot.clusters);
        let (size_bytes, valid_bytes) = (stream.size(), stream.valid());
        if size_bytes > heap_bytes || valid_bytes > size_bytes {
            return Err(Corrupt::Size {
                size_bytes,
                valid_bytes,
                heap_bytes,
            }
            .into());
        }
        if size_bytes == 0 {
            return Ok(());
        }
        let first = stream.first();
        self.boot.check_first(first)?;
        let count = self.boot.clusters_for(size_bytes);
        let last = first.0.checked_add(count.saturating_sub(1)).map(Cluster);
        let is_within = last.is_some_and(|last| self.boot.contains(last));
        if stream.is_contiguous() && !is_within {
            return Err(Corrupt::Contiguous {
                first,
                count,
                clusters: self.boot.clusters,
            }
            .into());
        }
        Ok(())
    }

    /// The entries of a regular file.
    pub(crate) fn file(&self, inode: InodeNumber) -> Result<EntrySet> {
        let is_directory = || Error::from(ErrorKind::IsADirectory).in_inode(inode);
        if inode == ROOT {
            return Err(is_directory());
        }
        let set = self.set(inode)?;
        if set.file.is_directory() {
            return Err(is_directory());
        }
        Ok(set)
    }

    /// The clusters of a file, as many as its size asks for, or more.
    pub(crate) fn chain_of(&self, stream: &StreamExtension) -> Result<Arc<Chain>> {
        let count = self.boot.clusters_for(stream.size());
        if count == 0 {
            return Ok(Arc::default());
        }
        let first = stream.first();
        if stream.is_contiguous() {
            let mut chain = Chain::default();
            chain.push(first, count);
            return Ok(Arc::new(chain));
        }
        let chain = self.chain(first)?;
        let clusters = chain.clusters();
        if clusters < count {
            return Err(Corrupt::ShortChain { first, clusters }.into());
        }
        Ok(chain)
    }

    /// The chain that begins with a cluster, as the table tells it.
    fn chain(&self, first: Cluster) -> Result<Arc<Chain>> {
        if let Some(chain) = lock(&self.chains).by_first.get(&first) {
            return Ok(Arc::clone(chain));
        }
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

    /// The clusters of a directory, and how long it is.
    pub(crate) fn directory_chain(&self, dir: InodeNumber) -> Result<(Arc<Chain>, u64)> {
        if dir == ROOT {
            let chain = self.chain(self.boot.root)?;
            let len_bytes = self.boot.bytes_of(chain.clusters());
            return Ok((chain, len_bytes));
        }
        let set = self.set(dir)?;
        if !set.file.is_directory() {
            return Err(Error::from(ErrorKind::NotADirectory).in_inode(dir));
        }
        let chain = self.chain_of(&set.stream).map_err(|e| e.in_inode(dir))?;
        Ok((chain, set.stream.size()))
    }

    /// The names of a directory.
    pub(crate) fn directory(&self, dir: InodeNumber) -> Result<Arc<Directory>> {
        if let Some(directory) = lock(&self.directories).by_number.get(&dir) {
            return Ok(Arc::clone(directory));
        }
        let (chain, len_bytes) = self.directory_chain(dir)?;
        let runs = directory_runs(&self.boot, &chain, len_bytes.min(MAX_BYTES));
        self.join(&chain);
        let directory = Directory::read(&self.sectors, &runs, &self.upcase)?;
        for (_, name) in directory
            .names_from(0)
            .filter(|(_, name)| name.is_directory)
        {
            self.set_parent(self.numbers.of(name.place), dir);
        }
        let directory = Arc::new(directory);
        let mut kept = lock(&self.directories);
        if kept.cost > DIRECTORIES_BYTES {
            kept.by_number.clear();
            kept.cost = 0;
        }
        kept.cost = kept.cost.saturating_add(directory.cost());
        kept.by_number.insert(dir, Arc::clone(&directory));
        Ok(directory)
    }

    /// Keeps in mind where a directory goes on.
    pub(crate) fn join(&self, chain: &Chain) {
        let mut joints = lock(&self.joints);
        let mut before: Option<Cluster> = None;
        for run in chain.runs() {
            if let Some(before) = before.replace(run.last()) {
                joints.insert(before, run.first);
            }
            if !joints.is_empty() {
                // Of what was another directory's once, nothing holds within the run.
                for cluster in run.clusters().filter(|cluster| *cluster != run.last()) {
                    joints.remove(&cluster);
                }
            }
        }
    }

    /// Changes what is known of a directory.
    pub(crate) fn change_directory<T>(
        &self,
        dir: InodeNumber,
        change: impl FnOnce(&mut Directory) -> T,
    ) -> Result<T> {
        let mut directory = self.directory(dir)?;
        // One of the two goes, so that the other is changed in place.
        lock(&self.directories).by_number.remove(&dir);
        let result = change(Arc::make_mut(&mut directory));
        lock(&self.directories).by_number.insert(dir, directory);
        Ok(result)
    }

    /// Forgets a directory that is gone.
    pub(crate) fn forget_directory(&self, dir: InodeNumber) {
        let mut kept = lock(&self.directories);
        if let Some(old) = kept.by_number.remove(&dir) {
            kept.cost = kept.cost.saturating_sub(old.cost());
        }
        lock(&self.parents).remove(&dir);
    }

    /// Says which directory is above one.
    pub(crate) fn set_parent(&self, dir: InodeNumber, above: InodeNumber) {
        lock(&self.parents).insert(dir, above);
    }

    /// The directory above one. A directory that no listing has shown has none.
    pub(crate) fn above(&self, dir: InodeNumber) -> Result<InodeNumber> {
        if dir == ROOT {
            return Ok(ROOT);
        }
        let above = lock(&self.parents).get(&dir).copied();
        above.ok_or_else(|| no_such_file(dir))
    }

    /// Whether `dir` is the directory `below`, or one above it.
    pub(crate) fn is_at_or_above(&self, dir: InodeNumber, below: InodeNumber) -> Result<bool> {
        let mut at = below;
        for _ in 0..MAX_DEPTH {
            if at == dir {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            at = self.above(at)?;
        }
        Err(Corrupt::TooDeep(MAX_DEPTH).into())
    }

    /// The name that `name` finds, and its first slot.
    pub(crate) fn find<'a>(
        &self,
        directory: &'a Directory,
        name: &[u8],
    ) -> Option<(u32, &'a Name)> {
        let keys = crate::file_name::keys_to_find(name, &self.upcase);
        keys.iter().flatten().find_map(|key| directory.find(key))
    }

    /// How many clusters are free, as the bitmap says: counted once.
    pub(crate) fn free_clusters(&self) -> Result<u32> {
        let mut known = lock(&self.free_clusters);
        if let Some(count) = *known {
            return Ok(count);
        }
        let count = self.bitmap.count_free(&*self.device)?;
        *known = Some(count);
        Ok(count)
    }
}

/// Where the entries of a directory with these clusters are: offset and length of each run, in bytes.
fn directory_runs(boot: &BootSector, chain: &Chain, len_bytes: u64) -> Vec<(u64, u64)> {
    let mut left = len_bytes.saturating_sub(len_bytes % ENTRY_BYTES);
    let runs = chain.runs().iter().map(|run| {
        let len_bytes = boot.bytes_of(run.count).min(left);
        left = left.saturating_sub(len_bytes);
        (boot.offset_of(run.first), len_bytes)
    });
    runs.filter(|(_, len_bytes)| *len_bytes > 0).collect()
}

pub(crate) fn no_such_file(inode: InodeNumber) -> Error {
    Error::new(ErrorKind::NotFound, "no such file").in_inode(inode)
}
