//! Changing the name of the backing file in an image: specification, sections "Header" and "Header
//! extensions". A crash leaves the old name or the new one: see
//! [`first_cluster`](crate::qcow2::first_cluster).

use diskfs_block::{BlockWrite, Result};

use crate::qcow2::first_cluster::FirstCluster;
use crate::qcow2::header::{Header, NamedBacking};
use crate::qcow2::header_extensions::{ExtensionKind, push_extension};

/// Sets the name of the image's backing file, or removes it.
pub(crate) fn set(file: &dyn BlockWrite, backing: Option<&NamedBacking>) -> Result<()> {
    let header = Header::read(file)?;
    let cluster = FirstCluster::read(file, &header)?;
    let kept = cluster.extensions()?;
    let name = backing.map_or(&[][..], |backing| &backing.name);
    let fronts = [(true, true), (false, true), (true, false), (false, false)]
        .into_iter()
        .map(|extras| front(cluster.header(), &kept, backing, extras));
    cluster.prepare(file, fronts, name)?.carry_out(file)
}

/// Builds the header and the extensions. If they do not fit, the feature name table is omitted
/// first, because it is only used in messages. Then the record of the backing file's state is
/// omitted, without which a change of the backing file is not detected.
fn front(
    header: &[u8],
    kept: &[(Option<ExtensionKind>, &[u8])],
    backing: Option<&NamedBacking>,
    (with_names, with_record): (bool, bool),
) -> Vec<u8> {
    let mut bytes = header.to_vec();
    if let Some(backing) = backing {
        push_extension(
            &mut bytes,
            ExtensionKind::BackingFormat,
            backing.format.as_bytes(),
        );
        if with_record {
            backing.push_record(&mut bytes);
        }
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
