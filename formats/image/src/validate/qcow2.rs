//! The rules for qcow2 images.

use std::sync::Arc;

use diskfs_block::{Error, ErrorKind, Result};

use super::{Rule, Verdict};
use crate::numbers::has_bit;
use crate::qcow2::Unopened;
use crate::qcow2::features::Incompatible;
use crate::qcow2::header::{
    BACKING_NAME_MAX_BYTES, CLUSTER_BITS, L1_SIZE_MAX_BYTES, REFCOUNT_TABLE_MAX_BYTES,
    SNAPSHOTS_MAX,
};
use crate::qcow2::stated::Stated;
use crate::source::Source;

/// Checks an image, without the files that it names.
pub(super) fn check(source: &Source, verdict: &mut Verdict) -> Result<()> {
    let stated = match Stated::read(source.device.as_ref()) {
        Ok(stated) => stated,
        Err(error) => return verdict.breaks_by(error),
    };
    verdict.virtual_size_bytes = Some(stated.size_bytes);
    check_files(&stated, verdict);
    check_features(stated.incompatible, verdict);
    check_tables(&stated, verdict);
    match Unopened::read(Arc::clone(&source.device), None) {
        Ok(image) => note(&image, verdict),
        Err(error) if is_known(&error, verdict) => {}
        Err(error) => verdict.breaks_by(error)?,
    }
    Ok(())
}

/// Returns true if an error of the header says what a broken rule says already.
fn is_known(error: &Error, verdict: &Verdict) -> bool {
    let is_of_image = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
    let says = |broken: &super::BrokenRule| {
        matches!(broken.rule, Rule::MetadataSize | Rule::UnknownFeature)
    };
    is_of_image && verdict.broken.iter().any(says)
}

/// Checks that the image names no other files.
fn check_files(stated: &Stated, verdict: &mut Verdict) {
    if stated.backing_offset != 0 {
        let message = match &stated.backing_name {
            Some(name) => format!("the image has a backing file: `{}`", text(name)),
            None => "the image has a backing file without a valid name".to_owned(),
        };
        verdict.breaks(Rule::BackingFile, message, Some(8));
    }
    let has_bit = stated.incompatible.external_data_file();
    let message = match (&stated.data_file, has_bit) {
        (None, false) => return,
        (Some(name), true) => format!("the image has an external data file: `{}`", text(name)),
        (None, true) => "the image has an external data file without a name".to_owned(),
        (Some(name), false) => format!(
            "the image names an external data file, `{}`, without its feature bit",
            text(name)
        ),
    };
    verdict.breaks(Rule::DataFile, message, Some(72));
}

fn check_features(incompatible: Incompatible, verdict: &mut Verdict) {
    let unknown = incompatible.unknown();
    if unknown == 0 {
        return;
    }
    let bits = (0..64).filter(|bit| has_bit(unknown, *bit));
    let bits: Vec<_> = bits.map(|bit| bit.to_string()).collect();
    let message = format!(
        "the image has unknown incompatible features: bits {}",
        bits.join(", ")
    );
    verdict.breaks(Rule::UnknownFeature, message, Some(72));
}

/// Checks the sizes of the tables, which bound what a program reads.
fn check_tables(stated: &Stated, verdict: &mut Verdict) {
    let mut limit = |what: &str, value: u64, max: u64, at: u64| {
        if value > max {
            let message = format!("{what}: {value}, at most {max}");
            verdict.breaks(Rule::MetadataSize, message, Some(at));
        }
    };
    limit(
        "length of the backing file's name in bytes",
        stated.backing_len.into(),
        BACKING_NAME_MAX_BYTES.into(),
        16,
    );
    let cluster_bits = stated.cluster_bits;
    limit(
        "cluster size as a power of two",
        cluster_bits.into(),
        (*CLUSTER_BITS.end()).into(),
        20,
    );
    let l1_bytes = u64::from(stated.l1_entries).saturating_mul(8);
    limit(
        "size of the L1 table in bytes",
        l1_bytes,
        L1_SIZE_MAX_BYTES,
        36,
    );
    let cluster_bytes = 1_u64.checked_shl(cluster_bits).unwrap_or(u64::MAX);
    let refcount_bytes = u64::from(stated.refcount_clusters).saturating_mul(cluster_bytes);
    limit(
        "size of the refcount table in bytes",
        refcount_bytes,
        REFCOUNT_TABLE_MAX_BYTES,
        56,
    );
    limit(
        "number of snapshots",
        stated.snapshots.into(),
        SNAPSHOTS_MAX.into(),
        60,
    );
    limit(
        "length of the header in bytes",
        stated.header_bytes.into(),
        cluster_bytes,
        100,
    );
    if let Some(error) = &stated.extensions_error {
        let message = error.reason().to_owned();
        verdict.breaks(Rule::MetadataSize, message, error.offset());
    }
}

/// Notes the properties of a valid image that its receiver should know.
fn note(image: &Unopened, verdict: &mut Verdict) {
    let details = image.details();
    let snapshots = details.snapshots.len();
    if snapshots > 0 {
        let note = format!("internal snapshots in the image: {snapshots}");
        verdict.notes.push(note);
    }
    if details.encryption.is_some() {
        let note = "the image is encrypted";
        verdict.notes.push(note.to_owned());
    }
    verdict.notes.extend(image.warnings.iter().cloned());
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}
