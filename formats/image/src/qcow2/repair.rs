//! Repair of reference counts and "copied" flags.
//!
//! Counts are corrected where they are. If refcount blocks are missing or broken, a new refcount
//! table with all its blocks is written after the end of the file, and one write of one sector of
//! the header activates it. Then the flags are corrected, and last the dirty bit and the corrupt bit
//! are cleared. A crash at any moment leaves an image that a second repair completes.
//!
//! Invalid entries of tables are not changed. While there are some, no count is lowered: what they
//! referred to may look free, and must not be overwritten.

mod counts;
mod flags;
pub(crate) mod rebuild;

use diskfs_block::{BlockWrite, Result};

use crate::qcow2::check::{self, CheckReport, Checked, FindingKind};
use crate::qcow2::features::{Autoclear, Incompatible};
use crate::qcow2::header::Header;

const ADVICE: &str = "try to repair it with `qemu-img check -r all`";
/// The offsets of header fields (specification, section "Header").
const INCOMPATIBLE_AT: u64 = 72;
const AUTOCLEAR_AT: u64 = 88;

/// The errors to repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Leaked clusters: counts are lowered.
    Leaks,
    /// Everything that can be repaired: counts, refcount blocks and "copied" flags.
    All,
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The result of the check before the repair.
    pub before: CheckReport,
    /// The result of the check after the repair. It lists what was not repaired.
    pub after: CheckReport,
}

/// Repairs the image in `file` as far as possible.
pub(crate) fn repair(file: &dyn BlockWrite, what: Repair) -> Result<Repaired> {
    let header = Header::read(file)?;
    let before = check::check(file, &header, header.l2_rules())?;
    if !before.is_clean() {
        let checked = check::check_counts(file, &header, header.l2_rules())?;
        clear_unknown_features(file, &header)?;
        fix(file, &header, &checked, what)?;
    }
    let header = Header::read(file)?;
    let after = check::check(file, &header, header.l2_rules())?;
    if after.corruptions == 0 && after.check_errors == 0 {
        clear_marks(file, &header)?;
    }
    Ok(Repaired { before, after })
}

/// Repairs an image that was not closed properly, and clears the dirty bit. Fails if something is
/// wrong that the repair does not correct: without a change, except if tables overlap.
pub(crate) fn complete(file: &dyn BlockWrite) -> Result<()> {
    let header = Header::read(file)?;
    let checked = check::check_counts(file, &header, header.l2_rules())
        .and_then(|checked| checked.refuse_unrepairable().map(|()| checked))
        .map_err(|e| e.with_hint(ADVICE))?;
    clear_unknown_features(file, &header)?;
    fix(file, &header, &checked, Repair::All)?;
    let header = Header::read(file)?;
    let after = check::check(file, &header, header.l2_rules())?;
    // A table that is also used for something else keeps wrong flags.
    let mut left = after.findings.iter();
    match left.find(|finding| finding.kind != FindingKind::LeakedCluster) {
        Some(finding) => Err(finding.to_error().with_hint(ADVICE)),
        None => clear_marks(file, &header),
    }
}

fn fix(file: &dyn BlockWrite, header: &Header, checked: &Checked, what: Repair) -> Result<()> {
    match what {
        Repair::Leaks if checked.needs_rebuild || checked.is_incomplete => return Ok(()),
        Repair::Leaks => return counts::fix(file, header, counts::Direction::Lower),
        Repair::All if checked.needs_rebuild => {
            rebuild::rebuild(file, header, checked)?;
        }
        Repair::All if checked.is_incomplete => {
            counts::fix(file, header, counts::Direction::Raise)?;
        }
        Repair::All => counts::fix(file, header, counts::Direction::Both)?,
    }
    flags::fix(file, &Header::read(file)?)
}

/// Clears the autoclear bits that stand for data that we do not know, as before any change.
fn clear_unknown_features(file: &dyn BlockWrite, header: &Header) -> Result<()> {
    let kept = header.autoclear.0 & Autoclear::KNOWN;
    if header.version < 3 || kept == header.autoclear.0 {
        return Ok(());
    }
    file.write_at(AUTOCLEAR_AT, &kept.to_be_bytes())?;
    file.flush()
}

/// Clears the dirty bit and the corrupt bit.
fn clear_marks(file: &dyn BlockWrite, header: &Header) -> Result<()> {
    let bits = header.incompatible.0 & !(Incompatible::DIRTY | Incompatible::CORRUPT);
    if header.version < 3 || bits == header.incompatible.0 {
        return Ok(());
    }
    file.flush()?;
    file.write_at(INCOMPATIBLE_AT, &bits.to_be_bytes())?;
    file.flush()
}
