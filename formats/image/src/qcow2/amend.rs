//! Changes of an image's properties: version, lazy refcounts, and the width of refcounts
//! (specification, section "Header").
//!
//! One write of the header's first sector activates all of them. Refcounts of another width are
//! written before, in new blocks with a new table after all clusters in use. The old blocks are free
//! from then on. A crash leaves the old properties or the new ones.

mod zero_clusters;

use diskfs_block::{BlockRead, BlockWrite, Error, Result};

use crate::description::Snapshot;
use crate::numbers::{low_bits, shift_right};
use crate::qcow2::check::{self, Checked, Scope, for_each_window};
use crate::qcow2::features::Compatible;
use crate::qcow2::first_cluster::FirstCluster;
use crate::qcow2::header::{Header, Table};
use crate::qcow2::header_extensions::ExtensionKind;
use crate::qcow2::repair::rebuild;
use crate::qcow2::snapshot_table;

/// The length of a version 2 header.
const V2_LEN: usize = 72;
/// The length of a version 3 header that we write.
const V3_LEN: usize = 112;
/// The offsets of header fields.
const VERSION_AT: usize = 4;
const REFCOUNT_TABLE_AT: usize = 48;
const REFCOUNT_CLUSTERS_AT: usize = 56;
const COMPATIBLE_AT: usize = 80;
const REFCOUNT_ORDER_AT: usize = 96;
const HEADER_LENGTH_AT: usize = 100;

/// The wanted properties; `None` for those that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeaderChange {
    pub(crate) version: Option<u32>,
    pub(crate) lazy_refcounts: Option<bool>,
    pub(crate) refcount_bits: Option<u32>,
}

/// Fails if the image in `file` cannot have the wanted properties. Returns true if it is to become
/// one of version 2, so that zero clusters that hide a backing file must be written before.
pub(crate) fn check(file: &dyn BlockRead, change: HeaderChange) -> Result<bool> {
    let old = Header::read(file)?;
    let new = wanted(&old, change)?;
    let is_downgrade = new.version < old.version;
    if is_downgrade {
        check_downgrade(file, &old)?;
        refuse_errors(&check::check_counts(file, &old, old.l2_rules())?)?;
    }
    if new.refcount_order != old.refcount_order {
        check_counts_fit(file, &old, &new)?;
    }
    Ok(is_downgrade)
}

/// Changes the properties of the image in `file`. Returns true if clusters are leaked by that.
pub(crate) fn amend(file: &dyn BlockWrite, change: HeaderChange) -> Result<bool> {
    let old = Header::read(file)?;
    let new = wanted(&old, change)?;
    let is_same = new.version == old.version
        && new.compatible == old.compatible
        && new.refcount_order == old.refcount_order;
    if is_same {
        return Ok(false);
    }
    let has_leaks = new.version < old.version && {
        check_downgrade(file, &old)?;
        refuse_errors(&check::check_counts(file, &old, old.l2_rules())?)?;
        zero_clusters::remove(file, &old)?
    };
    let table = if new.refcount_order == old.refcount_order {
        old.refcount_table
    } else {
        write_counts(file, &old, &new)?
    };
    let cluster = FirstCluster::read(file, &old)?;
    let kept = cluster.extensions()?;
    let header = encode(cluster.header(), &old, &new, table);
    // Without the names of features, which are only used in messages, there is more room.
    let fronts = [new.version >= 3, false].map(|with_names| {
        let mut bytes = header.clone();
        for (kind, raw) in &kept {
            if *kind != Some(ExtensionKind::FeatureNames) || with_names {
                bytes.extend_from_slice(raw);
            }
        }
        bytes
    });
    cluster
        .prepare(file, fronts, cluster.name())?
        .carry_out(file)?;
    Ok(has_leaks)
}

/// Returns the header with the wanted properties. Fails if it would be invalid, or if more than the
/// header would have to change.
fn wanted(old: &Header, change: HeaderChange) -> Result<Header> {
    let mut new = old.clone();
    new.version = change.version.unwrap_or(old.version);
    if new.version < old.version {
        new.compatible = Compatible(0);
    }
    if let Some(lazy) = change.lazy_refcounts {
        new.compatible.0 &= !Compatible::LAZY_REFCOUNTS;
        new.compatible.0 |= if lazy { Compatible::LAZY_REFCOUNTS } else { 0 };
    }
    if let Some(bits) = change.refcount_bits {
        if !bits.is_power_of_two() || bits > 64 {
            let reason = format!("invalid refcount_bits {bits}: expected a power of two up to 64");
            return Err(Error::invalid(reason));
        }
        new.refcount_order = bits.trailing_zeros();
    }
    if new.version < 3 && (new.compatible.lazy_refcounts() || new.refcount_order != 4) {
        let reason = "version 2 has no lazy refcounts, and only refcounts of 16 bits";
        return Err(Error::invalid(reason).with_hint(if old.version < 3 {
            "add -o compat=1.1"
        } else {
            "add -o refcount_bits=16"
        }));
    }
    Ok(new)
}

/// Refuses what version 2 does not have, as QEMU does. Bitmaps are refused, too: QEMU gives them up.
fn check_downgrade(file: &dyn BlockRead, old: &Header) -> Result<()> {
    let unsupported = |reason: &'static str, hint| Err(Error::unsupported(reason).with_hint(hint));
    if old.incompatible.dirty() {
        return unsupported(
            "the image is marked dirty, which version 2 cannot express",
            "run `diskfs check --repair` first",
        );
    }
    if old.incompatible.0 != 0 {
        return unsupported(
            "the image has features that version 2 does not have: zstd, subclusters or a data file",
            "make a new image with `diskfs convert -o compat=0.10`",
        );
    }
    if old.extensions.bitmaps.is_some() {
        return unsupported(
            "the image has bitmaps, which are not valid in version 2",
            "remove them first with `diskfs bitmap`",
        );
    }
    let snapshots = snapshot_table::read(file, old)?;
    let is_newer = |snapshot: &Snapshot| {
        let size_bytes = snapshot.virtual_size_bytes.unwrap_or(old.size_bytes);
        size_bytes != old.size_bytes || snapshot.vm_state_bytes != 0
    };
    if snapshots
        .entries
        .iter()
        .any(|entry| is_newer(&entry.snapshot))
    {
        return unsupported(
            "a snapshot has another size than the disk, or the state of a machine",
            "delete the snapshot first",
        );
    }
    Ok(())
}

/// Fails if the counts are wrong, or too large for their new width.
fn check_counts_fit(file: &dyn BlockRead, old: &Header, new: &Header) -> Result<Checked> {
    let checked = check::check_counts(file, old, old.l2_rules())?;
    refuse_errors(&checked)?;
    let bits = u32::try_from(new.refcount_bits()).unwrap_or(u64::BITS);
    let max = match bits {
        64.. => u64::MAX,
        bits => low_bits(u64::MAX, bits),
    };
    for_each_window(
        file,
        old,
        Scope::WithoutRefcounts,
        |references| match references
            .window()
            .find(|&cluster| references.of(cluster) > max)
        {
            None => Ok(()),
            Some(cluster) => Err(Error::unsupported(format!(
                "refcounts of {bits} bits are too narrow: cluster {cluster} has {} references",
                references.of(cluster)
            ))
            .with_hint("delete snapshots first")),
        },
    )?;
    Ok(checked)
}

/// Writes the counts in their new width, and returns the new refcount table.
fn write_counts(file: &dyn BlockWrite, old: &Header, new: &Header) -> Result<Table> {
    let checked = check_counts_fit(file, old, new)?;
    rebuild::prepare(file, new, &checked)?.ok_or_else(|| {
        Error::corrupt("a table refers to a cluster past the end of the file")
            .with_hint("run `diskfs check` on the image")
    })
}

fn refuse_errors(checked: &Checked) -> Result<()> {
    checked.refuse_unrepairable()?;
    if checked.is_incomplete || checked.needs_rebuild || checked.report.corruptions > 0 {
        return Err(Error::corrupt("the image has wrong reference counts")
            .with_hint("repair it with `diskfs check --repair` first"));
    }
    Ok(())
}

fn encode(stored: &[u8], old: &Header, new: &Header, table: Table) -> Vec<u8> {
    let mut bytes = stored.to_vec();
    let mut put = |at: usize, field: &[u8]| {
        let end = at.saturating_add(field.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(place) = bytes.get_mut(at..end) {
            place.copy_from_slice(field);
        }
    };
    if old.version < 3 && new.version >= 3 {
        let len = u32::try_from(V3_LEN).unwrap_or(0);
        put(VERSION_AT, &new.version.to_be_bytes());
        put(HEADER_LENGTH_AT, &len.to_be_bytes());
        // The compression type, and padding.
        put(V3_LEN.saturating_sub(8), &[0; 8]);
    }
    if new.version >= 3 {
        put(COMPATIBLE_AT, &new.compatible.0.to_be_bytes());
        put(REFCOUNT_ORDER_AT, &new.refcount_order.to_be_bytes());
    }
    if old.version >= 3 && new.version < 3 {
        put(VERSION_AT, &new.version.to_be_bytes());
    }
    let clusters = shift_right(table.size_bytes(), new.geometry.cluster_bits());
    let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
    put(REFCOUNT_TABLE_AT, &table.at.0.to_be_bytes());
    put(REFCOUNT_CLUSTERS_AT, &clusters.to_be_bytes());
    if new.version < 3 {
        bytes.truncate(V2_LEN);
    }
    bytes
}
