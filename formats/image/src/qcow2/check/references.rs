//! The references to all clusters of a sound image, for changes of its tables.

use diskfs_block::{BlockRead, Error, Result};

use crate::qcow2::check::counter::{Counter, Scope};
use crate::qcow2::check::{clusters_of, refuse_unrepairable};
use crate::qcow2::header::{Header, Table};
use crate::qcow2::l2_entry::L2Rules;
use crate::qcow2::units::HostOffset;

/// The largest number of clusters whose references are returned together: 256 MiB of counters.
const LISTED_MAX: u64 = 1 << 26;

/// Counts the references to each cluster of the image in `file`, without the snapshot whose entry
/// is at `gone`, which is not read. Fails if no reference counts could make the image consistent.
pub(crate) fn references_without(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
    gone: Option<HostOffset>,
) -> Result<Vec<u32>> {
    let mut counter = whole(file, header, rules)?;
    counter.count_all(gone.map_or(Scope::All, Scope::WithoutSnapshot))?;
    counter.into_valid_counts()
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

/// Counts the references to each cluster from one L1 table and its L2 tables, including those
/// tables themselves.
pub(crate) fn references_of(
    file: &dyn BlockRead,
    header: &Header,
    rules: L2Rules,
    l1: Table,
) -> Result<Vec<u32>> {
    let mut counter = whole(file, header, rules)?;
    counter.count_l1(l1, 1)?;
    counter.count_l2_tables()?;
    counter.into_valid_counts()
}

/// Creates a counter for all clusters of the file.
fn whole<'a>(file: &'a dyn BlockRead, header: &'a Header, rules: L2Rules) -> Result<Counter<'a>> {
    let clusters = clusters_of(file, header);
    if clusters > LISTED_MAX {
        let reason = format!(
            "the file is too large to count its clusters: {clusters} clusters, at most {LISTED_MAX}"
        );
        return Err(Error::unsupported(reason).with_hint("use `qemu-img`"));
    }
    Ok(Counter::new(file, header, rules, 0..clusters))
}

impl Counter<'_> {
    fn into_valid_counts(self) -> Result<Vec<u32>> {
        refuse_unrepairable(self.shared, &self.report)?;
        match self.report.findings.first() {
            Some(finding) => Err(finding.to_error()),
            None => Ok(self.counts),
        }
    }
}
