//! Whether the reference counts agree with what refers to the clusters.

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

/// Clusters of a file that are counted: 256 MiB of counters, for 4 TiB at QEMU's default cluster
/// size.
const CLUSTERS_MAX: u64 = 1 << 26;
/// Bytes of tables that are read, if the file is that long: a file has room for tables that do not
/// lie over each other, and nobody makes others.
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

/// How often an L2 table is named.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    times: u32,
    /// The number of the L1 table that named it last, from 1 on.
    last_l1: u32,
}

/// Counts what refers to each cluster.
struct Counter<'a> {
    file: &'a dyn BlockRead,
    header: &'a Header,
    rules: L2Rules,
    counts: Vec<u32>,
    /// How often each L2 table is named. Each is read once, however many snapshots share it.
    l2_tables: BTreeMap<HostOffset, Named>,
    /// What may still be read.
    left_bytes: u64,
    /// The first L2 table that one L1 table names twice, and that table.
    shared: Option<(HostOffset, Table)>,
    report: CheckReport,
}

/// Compares the counts of the image in `file` with its tables.
pub(crate) fn check(file: &dyn BlockRead, header: &Header, rules: L2Rules) -> Result<CheckReport> {
    counted(file, header, rules, None)?.compare()
}

/// How often each cluster of the image in `file` is referred to. Fails where no counts could make
/// the image right.
pub(crate) fn references(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
) -> Result<Vec<u32>> {
    references_without(file, header, rules, None)
}

/// The same as if there were no snapshot whose entry is at `gone`, which is not looked at.
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
            let reason =
                format!("{clusters} clusters are too many to check; the limit is {CLUSTERS_MAX}");
            return Err(Error::unsupported(reason).with_hint("`qemu-img check` does it"));
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

    /// One more reference to each cluster that the range touches.
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

    /// The L1 table with this number, and its L2 tables, whose entries come later.
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
        // So there are no more of them than clusters.
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

    /// What the entries of all L2 tables point to.
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
            let reason = format!("tables of more than {TABLES_MAX_BYTES} bytes");
            return Error::unsupported(reason).with_hint("`qemu-img check` reads them");
        }
        let reason = "tables lie over each other: together they are longer than the file";
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
    Error::corrupt("table reaches past the end of the file").at(at.0)
}
