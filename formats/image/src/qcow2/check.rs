//! The check of reference counts against the references to clusters.

use std::collections::BTreeMap;

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{power_of_two, round_up, shift_right, to_u64, to_usize};
use crate::qcow2::bitmap_directory;
use crate::qcow2::cache::TableSlice;
use crate::qcow2::header::{Header, Table, check_l1};
use crate::qcow2::l1_entry;
use crate::qcow2::l1_table;
use crate::qcow2::l2_entry::{DataPlace, L2Entry, L2Rules};
use crate::qcow2::refcounts::Refcounts;
use crate::qcow2::snapshot_table;
use crate::qcow2::units::HostOffset;

/// The largest number of clusters to count: 256 MiB of counters, for 4 TiB at QEMU's default
/// cluster size.
const CLUSTERS_MAX: u64 = 1 << 26;
/// The number of bytes of tables to read at most, if the file is that long. Tables that do not
/// overlap fit into their file, and no program writes overlapping ones.
const TABLES_MAX_BYTES: u64 = 4 << 30;
/// The number of bytes of a table to read at once.
const PIECE_BYTES: u64 = 64 << 10;

/// The result of comparing reference counts with references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// The number of clusters whose count is higher than their references: space is lost, data is
    /// safe.
    pub leaked_clusters: u64,
    /// The number of clusters that have more references than their count, or do not exist: writing
    /// would destroy data.
    pub corrupt_clusters: u64,
    /// The offset of the first corrupt cluster in the file.
    pub first_corrupt: Option<u64>,
}

impl CheckReport {
    /// Returns true if no error was found.
    pub const fn is_clean(&self) -> bool {
        self.leaked_clusters == 0 && self.corrupt_clusters == 0
    }

    fn add_corrupt(&mut self, at: HostOffset) {
        self.corrupt_clusters = self.corrupt_clusters.saturating_add(1);
        self.first_corrupt.get_or_insert(at.0);
    }
}

/// The number of references to an L2 table.
#[derive(Debug, Clone, Copy, Default)]
struct TableReferences {
    times: u32,
    /// The number of the L1 table that refers to it last, counted from 1.
    last_l1: u32,
}

/// The counter of references to each cluster.
struct Counter<'a> {
    file: &'a dyn BlockRead,
    header: &'a Header,
    rules: L2Rules,
    counts: Vec<u32>,
    /// The number of references to each L2 table. Each table is read once, however many snapshots
    /// share it.
    l2_tables: BTreeMap<HostOffset, TableReferences>,
    /// The number of bytes of tables that may still be read.
    left_bytes: u64,
    /// The first L2 table to which one L1 table refers twice, and that L1 table.
    shared: Option<(HostOffset, Table)>,
    report: CheckReport,
}

/// Compares the reference counts of the image in `file` with its tables.
pub(crate) fn check(file: &dyn BlockRead, header: &Header, rules: L2Rules) -> Result<CheckReport> {
    counted(file, header, rules, None)?.compare()
}

/// Counts the references to each cluster of the image in `file`. Fails if no reference counts could
/// make the image consistent.
pub(crate) fn references(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
) -> Result<Vec<u32>> {
    references_without(file, header, rules, None)
}

/// Counts the references as if the snapshot whose entry is at `gone` did not exist; that snapshot
/// is not read.
pub(crate) fn references_without(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
    gone: Option<HostOffset>,
) -> Result<Vec<u32>> {
    let counter = counted(file, header, rules, gone)?;
    counter.refuse_shared()?;
    match counter.report.first_corrupt {
        None => Ok(counter.counts),
        Some(at) => {
            let reason = "a referenced cluster is past the end of the file";
            Err(Error::corrupt(reason).at(at))
        }
    }
}

/// Counts the references to each cluster from one L1 table and its L2 tables, including those
/// tables themselves.
pub(crate) fn references_of(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
    l1: Table,
) -> Result<Vec<u32>> {
    let mut counter = Counter::new(file, header, rules)?;
    counter.count_l1(l1, 1)?;
    counter.count_l2_tables()?;
    counter.refuse_shared()?;
    Ok(counter.counts)
}

fn counted<'a>(
    file: &'a dyn BlockRead,
    header: &'a Header,
    rules: L2Rules,
    gone: Option<HostOffset>,
) -> Result<Counter<'a>> {
    let mut counter = Counter::new(file, header, rules)?;
    counter.count_all(gone)?;
    Ok(counter)
}

impl<'a> Counter<'a> {
    fn new(file: &'a dyn BlockRead, header: &'a Header, rules: L2Rules) -> Result<Self> {
        let clusters = shift_right(
            round_up(file.size_bytes(), header.geometry.cluster_bits()),
            header.geometry.cluster_bits(),
        );
        if clusters > CLUSTERS_MAX {
            let reason = format!(
                "the file is too large to check: {clusters} clusters, at most {CLUSTERS_MAX}"
            );
            return Err(Error::unsupported(reason).with_hint("use `qemu-img check`"));
        }
        Ok(Self {
            file,
            header,
            rules,
            counts: vec![0; to_usize(clusters)],
            l2_tables: BTreeMap::new(),
            shared: None,
            left_bytes: TABLES_MAX_BYTES.min(file.size_bytes()),
            report: CheckReport::default(),
        })
    }
}

impl Counter<'_> {
    fn count_all(&mut self, gone: Option<HostOffset>) -> Result<()> {
        self.count(HostOffset(0), 1);
        if let Some(luks) = self.header.encryption {
            self.count(luks.at, luks.size_bytes);
        }
        self.count_refcounts()?;
        self.count_l1(self.header.l1, 1)?;
        let snapshots = snapshot_table::read(self.file, self.header)?;
        let at = self.header.snapshots_at;
        self.count(at, snapshots.end.0.saturating_sub(at.0));
        let entries = snapshots.entries.iter();
        for (entry, number) in entries.filter(|entry| Some(entry.at) != gone).zip(2_u32..) {
            self.count_l1(entry.l1, number)?;
        }
        self.count_l2_tables()?;
        self.count_bitmaps()
    }

    fn refuse_shared(&self) -> Result<()> {
        match self.shared {
            Some((table, l1)) => Err(l1_table::shared(table, l1)),
            None => Ok(()),
        }
    }

    /// Adds one reference to each cluster that the range touches.
    fn count(&mut self, at: HostOffset, len_bytes: u64) {
        self.count_times(at, len_bytes, 1);
    }

    fn count_times(&mut self, at: HostOffset, len_bytes: u64, times: u32) {
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
                *count = count.saturating_add(times);
            }
        }
    }

    fn count_refcounts(&mut self) -> Result<()> {
        let table = self.header.refcount_table;
        self.count(table.at, table.size_bytes());
        let cluster_size = self.header.geometry.cluster_size();
        self.for_each_word(table.at, table.size_bytes(), |counter, words, index| {
            let refcounts = Refcounts::new(counter.file, counter.header);
            if let Some(at) = refcounts.decode_entry(words.word(index), words.place_of(index))? {
                counter.count(at, cluster_size);
                if at.plus(cluster_size).0 > counter.file.size_bytes() {
                    counter.report.add_corrupt(at);
                }
            }
            Ok(())
        })
    }

    /// Counts the L1 table with this number, and its L2 tables without their entries, which are
    /// counted later.
    fn count_l1(&mut self, l1: Table, number: u32) -> Result<()> {
        let geometry = self.header.geometry;
        check_l1(self.file, geometry, l1, 0)?;
        self.count(l1.at, l1.size_bytes());
        self.for_each_word(l1.at, l1.size_bytes(), |counter, words, index| {
            let entry = words.word(index);
            if let Some(at) = l1_entry::l2_table(entry, geometry, words.place_of(index))? {
                counter.name_l2(at, l1, number)?;
            }
            Ok(())
        })
    }

    fn name_l2(&mut self, at: HostOffset, l1: Table, number: u32) -> Result<()> {
        let cluster_size = self.header.geometry.cluster_size();
        // This bounds the number of L2 tables by the number of clusters.
        if at.plus(cluster_size).0 > self.file.size_bytes() {
            return Err(past_the_end(at));
        }
        self.count(at, cluster_size);
        let named = self.l2_tables.entry(at).or_default();
        if named.last_l1 == number {
            self.shared.get_or_insert((at, l1));
        }
        named.last_l1 = number;
        named.times = named.times.saturating_add(1);
        Ok(())
    }

    /// Counts the clusters to which the entries of all L2 tables point.
    fn count_l2_tables(&mut self) -> Result<()> {
        for (at, named) in std::mem::take(&mut self.l2_tables) {
            self.count_l2(at, named.times)?;
        }
        Ok(())
    }

    fn count_l2(&mut self, table: HostOffset, times: u32) -> Result<()> {
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
                L2Entry::Compressed(cluster) => {
                    counter.count_times(cluster.host, cluster.len_bytes, times);
                }
                L2Entry::Standard(cluster) => {
                    if let (Some(host), DataPlace::Inside) = (cluster.host, counter.rules.data) {
                        counter.count_times(host, geometry.cluster_size(), times);
                    }
                }
            }
            Ok(())
        })
    }

    fn count_bitmaps(&mut self) -> Result<()> {
        /// The bits of the offset in a bitmap table entry: 9 to 55.
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
        self.left_bytes = self
            .left_bytes
            .checked_sub(size_bytes)
            .ok_or_else(|| self.too_much(at))?;
        let mut done = 0;
        while done < size_bytes {
            let len_bytes = PIECE_BYTES.min(size_bytes.saturating_sub(done));
            let piece_at = at.plus(done);
            if piece_at.plus(len_bytes).0 > file.size_bytes() {
                return Err(past_the_end(piece_at));
            }
            let words = TableSlice::read(file, piece_at, len_bytes)?;
            for index in 0..words.len() {
                visit(self, &words, index)?;
            }
            done = done.saturating_add(len_bytes);
        }
        Ok(())
    }

    fn too_much(&self, at: HostOffset) -> Error {
        if self.file.size_bytes() > TABLES_MAX_BYTES {
            let reason = format!("the tables are too large: more than {TABLES_MAX_BYTES} bytes");
            return Error::unsupported(reason).with_hint("use `qemu-img check`");
        }
        let reason = "tables overlap: together they are longer than the file";
        Error::corrupt(reason).at(at.0)
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

fn past_the_end(at: HostOffset) -> Error {
    Error::corrupt("table extends past the end of the file").at(at.0)
}
