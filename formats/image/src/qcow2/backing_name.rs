//! Changing the name of the backing file in an image: specification, sections "Header" and "Header
//! extensions". A crash leaves the old name or the new one: see
//! [`first_cluster`](crate::qcow2::first_cluster).

use diskfs_block::{BlockWrite, Result};

use crate::qcow2::base_record;
use crate::qcow2::first_cluster::FirstCluster;
use crate::qcow2::header::{Header, NamedBacking};
use crate::qcow2::header_extensions::{ExtensionKind, push_extension};

/// Sets the name of the image's backing file, or removes it.
pub(crate) fn set(file: &dyn BlockWrite, backing: Option<&NamedBacking>) -> Result<()> {
    let name = backing.map_or(&[][..], |backing| &backing.name);
    let format = backing.map(|backing| backing.format.as_bytes());
    let record = backing.map(|backing| base_record::encode(name, backing.identity));
    rewrite(file, name, (format, record.as_deref()))
}

/// Removes the name of the backing file, whose contents were copied into the image, and records
/// that.
pub(crate) fn set_copied(file: &dyn BlockWrite) -> Result<()> {
    let record = Header::read(file)?
        .backing_name
        .map(|name| base_record::encode_copied(&name));
    rewrite(file, &[], (None, record.as_deref()))
}

/// Writes a name, and the extensions with the backing file's format and the record of its state.
fn rewrite(
    file: &dyn BlockWrite,
    name: &[u8],
    (format, record): (Option<&[u8]>, Option<&[u8]>),
) -> Result<()> {
    let header = Header::read(file)?;
    let cluster = FirstCluster::read(file, &header)?;
    let kept = cluster.extensions()?;
    // If they do not fit, the feature name table is omitted first, because it is only used in
    // messages; then the record, without which a change of the backing file is not detected.
    let fronts = [(true, true), (false, true), (true, false), (false, false)]
        .into_iter()
        .map(|(with_names, with_record)| {
            let record = record.filter(|_| with_record);
            front(cluster.header(), &kept, (format, record), with_names)
        });
    cluster.prepare(file, fronts, name)?.carry_out(file)
}

/// Builds the header and the extensions.
fn front(
    header: &[u8],
    kept: &[(Option<ExtensionKind>, &[u8])],
    (format, record): (Option<&[u8]>, Option<&[u8]>),
    with_names: bool,
) -> Vec<u8> {
    let mut bytes = header.to_vec();
    if let Some(format) = format {
        push_extension(&mut bytes, ExtensionKind::BackingFormat, format);
    }
    if let Some(record) = record {
        push_extension(&mut bytes, ExtensionKind::BaseRecord, record);
    }
    for (kind, raw) in kept {
        let is_old = matches!(
            kind,
            Some(ExtensionKind::BackingFormat | ExtensionKind::BaseRecord)
        );
        let skipped = is_old || *kind == Some(ExtensionKind::FeatureNames) && !with_names;
        if !skipped {
            bytes.extend_from_slice(raw);
        }
    }
    bytes
}
