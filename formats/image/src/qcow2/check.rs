//! Whether the reference counts agree with what refers to the clusters.

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{power_of_two, round_up, shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_directory;
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::{Header, Table, check_l1};
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{DataPlace, L2Entry, L2Rules};
use crate::qcow2::refcounts::Refcounts;
use crate::qcow2::snapshot_table;
use crate::qcow2::units::HostOffset;

/// Clusters of a file that are counted: 256 MiB of counters, for 4 TiB at QEMU's default cluster
/// size.
const CLUSTERS_MAX: u64 = 1 << 26;
/// Bytes of tables that are read. Snapshots can name the same tables over and over.
const TABLES_MAX_BYTES: u64 = 4 << 30;
/// Tables are read in pieces of this size.
const PIECE_BYTES: u64 = 64 << 10;

/// What a comparison of reference counts found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Clusters that are counted more often than they are referred to: space that is lost, no harm
    /// to data.
    pub leaked_clusters: u64,
    /// Clusters that are referred to more often than they are counted, or that do not exist:
    /// writing would destroy data.
    pub corrupt_clusters: u64,
    /// The first corrupt cluster's place in the file.
    pub first_corrupt: Option<u64>,
}

impl CheckReport {
    /// Whether nothing was found.
    pub const fn is_clean(&self) -> bool {
        self.leaked_clusters == 0 && self.corrupt_clusters == 0
    }

    fn add_corrupt(&mut self, at: HostOffset) {
        self.corrupt_clusters = self.corrupt_clusters.saturating_add(1);
        self.first_corrupt.get_or_insert(at.0);
    }
}

/// Counts what refers to each cluster.
struct Counter<'a> {
    file: &'a dyn BlockRead,
    header: &'a Header,
    rules: L2Rules,
    counts: Vec<u32>,
    /// What is left of [`TABLES_MAX_BYTES`].
    left_bytes: u64,
    report: CheckReport,
}

/// Compares the counts of the image in `file` with its tables.
pub(crate) fn check(file: &dyn BlockRead, header: &Header, rules: L2Rules) -> Result<CheckReport> {
    counted(file, header, rules)?.compare()
}

/// How often each cluster of the image in `file` is referred to.
pub(crate) fn references(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
) -> Result<Vec<u32>> {
    let counter = counted(file, header, rules)?;
    match counter.report.first_corrupt {
        None => Ok(counter.counts),
        Some(at) => {
            let reason = "a cluster that is referred to lies past the end of the file";
            Err(Error::corrupt(reason).at(at))
        }
    }
}

/// How often each cluster is referred to by one L1 table, its L2 tables, and itself.
pub(crate) fn references_of(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
    l1: Table,
) -> Result<Vec<u32>> {
    let mut counter = Counter::new(file, header, rules)?;
    counter.count_mapping(l1)?;
    Ok(counter.counts)
}

fn counted<'a>(file: &'a dyn BlockRead, header: &'a Header, rules: L2Rules) -> Result<Counter<'a>> {
    let mut counter = Counter::new(file, header, rules)?;
    counter.count_all()?;
    Ok(counter)
}

impl<'a> Counter<'a> {
    fn new(file: &'a dyn BlockRead, header: &'a Header, rules: L2Rules) -> Result<Self> {
        let clusters = shift_right(
            round_up(file.size_bytes(), header.geometry.cluster_bits()),
            header.geometry.cluster_bits(),
        );
        if clusters > CLUSTERS_MAX {
            let reason =
                format!("{clusters} clusters are too many to check; the limit is {CLUSTERS_MAX}");
            return Err(Error::unsupported(reason).hint("`qemu-img check` does it"));
        }
        Ok(Self {
            file,
            header,
            rules,
            counts: vec![0; to_usize(clusters)],
            left_bytes: TABLES_MAX_BYTES,
            report: CheckReport::default(),
        })
    }
}

impl Counter<'_> {
    fn count_all(&mut self) -> Result<()> {
        self.count(HostOffset(0), 1);
        if let Some(luks) = self.header.encryption {
            self.count(luks.at, luks.size_bytes);
        }
        self.count_refcounts()?;
        self.count_mapping(self.header.l1)?;
        let snapshots = snapshot_table::read(self.file, self.header)?;
        let at = self.header.snapshots_at;
        self.count(at, snapshots.end.0.saturating_sub(at.0));
        for entry in &snapshots.entries {
            self.count_mapping(entry.l1)?;
        }
        self.count_bitmaps()
    }

    /// One more reference to each cluster that the range touches.
    fn count(&mut self, at: HostOffset, len_bytes: u64) {
        let bits = self.header.geometry.cluster_bits();
        if len_bytes == 0 {
            return;
        }
        let first = shift_right(at.0, bits);
        let last = shift_right(at.plus(len_bytes.saturating_sub(1)).0, bits);
        let end = to_u64(self.counts.len());
        if last >= end {
            self.report
                .add_corrupt(HostOffset(at.0.max(self.file.size_bytes())));
        }
        for index in first..=last.min(end.saturating_sub(1)) {
            if let Some(count) = self.counts.get_mut(to_usize(index)) {
                *count = count.saturating_add(1);
            }
        }
    }

    fn references(&self, at: HostOffset) -> u32 {
        let index = shift_right(at.0, self.header.geometry.cluster_bits());
        self.counts.get(to_usize(index)).copied().unwrap_or(0)
    }

    fn count_refcounts(&mut self) -> Result<()> {
        let table = self.header.refcount_table;
        self.count(table.at, table.size_bytes());
        let cluster_size = self.header.geometry.cluster_size();
        self.for_each_word(table.at, table.size_bytes(), |counter, words, index| {
            let refcounts = Refcounts::new(counter.file, counter.header);
            if let Some(at) = refcounts.decode_entry(words.word(index), words.place_of(index))? {
                counter.count(at, cluster_size);
            }
            Ok(())
        })
    }

    /// An L1 table, its L2 tables, and what they point to.
    fn count_mapping(&mut self, l1: Table) -> Result<()> {
        let geometry = self.header.geometry;
        check_l1(self.file, geometry, l1, 0)?;
        self.count(l1.at, l1.size_bytes());
        // An L2 table has one reference from each L1 table. One with more is corrupt already, and
        // walking it over and over would take for ever.
        let walks_max = self.header.snapshot_count.saturating_add(1);
        self.for_each_word(l1.at, l1.size_bytes(), |counter, words, index| {
            let entry = words.word(index);
            if let Some(at) = l1_entry::l2_table(entry, geometry, words.place_of(index))? {
                counter.count(at, geometry.cluster_size());
                if counter.references(at) <= walks_max {
                    counter.count_l2(at)?;
                }
            }
            Ok(())
        })
    }

    fn count_l2(&mut self, table: HostOffset) -> Result<()> {
        let geometry = self.header.geometry;
        let words_per_entry = geometry.layout().words();
        self.for_each_word(table, geometry.cluster_size(), |counter, words, index| {
            if !index.is_multiple_of(words_per_entry) {
                return Ok(());
            }
            let bitmap = match words_per_entry {
                1 => 0,
                _ => words.word(index.saturating_add(1)),
            };
            let at = words.place_of(index);
            match L2Entry::decode(words.word(index), bitmap, counter.rules, at)? {
                L2Entry::Compressed(cluster) => counter.count(cluster.host, cluster.len_bytes),
                L2Entry::Standard(cluster) => {
                    if let (Some(host), DataPlace::Inside) = (cluster.host, counter.rules.data) {
                        counter.count(host, geometry.cluster_size());
                    }
                }
            }
            Ok(())
        })
    }

    fn count_bitmaps(&mut self) -> Result<()> {
        /// Bits 9 to 55 of a bitmap table entry.
        const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
        let Some(directory) = self.header.extensions.bitmaps else {
            return Ok(());
        };
        if !self.header.autoclear.bitmaps() {
            return Ok(());
        }
        self.count(directory.at, directory.size_bytes);
        let cluster_size = self.header.geometry.cluster_size();
        for entry in bitmap_directory::read(self.file, self.header)? {
            let size_bytes = u64::from(entry.table_entries).saturating_mul(8);
            self.count(entry.table_at, size_bytes);
            self.for_each_word(entry.table_at, size_bytes, |counter, words, index| {
                let at = words.word(index) & OFFSET_MASK;
                if at != 0 {
                    counter.count(HostOffset(at), cluster_size);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Calls `visit` with each 64-bit word of a table, which may be long.
    fn for_each_word(
        &mut self,
        at: HostOffset,
        size_bytes: u64,
        visit: impl Fn(&mut Self, &TableSlice, usize) -> Result<()>,
    ) -> Result<()> {
        let file = self.file;
        self.left_bytes = self.left_bytes.checked_sub(size_bytes).ok_or_else(|| {
            let reason = format!("tables of more than {TABLES_MAX_BYTES} bytes");
            Error::unsupported(reason).hint("`qemu-img check` reads them")
        })?;
        let mut done = 0;
        while done < size_bytes {
            let len_bytes = PIECE_BYTES.min(size_bytes.saturating_sub(done));
            let piece_at = at.plus(done);
            if piece_at.plus(len_bytes).0 > file.size_bytes() {
                let reason = "table reaches past the end of the file";
                return Err(Error::corrupt(reason).at(piece_at.0));
            }
            let words = TableSlice::read(file, piece_at, len_bytes)?;
            for index in 0..words.len() {
                visit(self, &words, index)?;
            }
            done = done.saturating_add(len_bytes);
        }
        Ok(())
    }

    fn compare(mut self) -> Result<CheckReport> {
        let refcounts = Refcounts::new(self.file, self.header);
        let block_bits = refcounts.block_entries_bits();
        let block_entries = to_usize(power_of_two(block_bits)).max(1);
        let counts = std::mem::take(&mut self.counts);
        for (index, counts) in (0_u64..).zip(counts.chunks(block_entries)) {
            let block = refcounts.block(index)?;
            for (in_block, &references) in (0_u64..).zip(counts) {
                let stored = block.get(in_block);
                let references = u64::from(references);
                if stored > references {
                    self.report.leaked_clusters = self.report.leaked_clusters.saturating_add(1);
                } else if stored < references {
                    let cluster = index.saturating_mul(power_of_two(block_bits));
                    let at = cluster
                        .saturating_add(in_block)
                        .saturating_mul(self.header.geometry.cluster_size());
                    self.report.add_corrupt(HostOffset(at));
                }
            }
        }
        Ok(self.report)
    }
}
