//! Images from strangers: the verdicts of all policies.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_image::validate::{Policy, ValidateOptions, Verdict, validate_device};
use diskfs_image::{Format, Gate, Image, OpenOptions};

use crate::{Sparse, image_maps, luks, ova, vmdk};

/// The limit of a disk's size.
const SIZE_LIMIT_BYTES: u64 = 1 << 40;

/// The formats that a sender states. A fixed VHD is only looked for if it is stated.
const CLAIMS: [Option<Format>; 3] = [None, Some(Format::Raw), Some(Format::Vhd)];

/// Validates an image, as it is and with corrected checksums, by each policy.
pub(crate) fn by_all(device: &Arc<dyn BlockRead>) {
    for image in [Arc::clone(device), image_maps::sealed(device)] {
        for policy in Policy::ALL {
            for claimed in CLAIMS {
                let validation = ValidateOptions {
                    policy,
                    claimed,
                    size_limit_bytes: Some(SIZE_LIMIT_BYTES),
                };
                let verdict = validate_device("image".as_ref(), Arc::clone(&image), &validation);
                let accepted = verdict.ok().filter(Verdict::is_accepted);
                if let Some(verdict) = accepted {
                    keeps_promises(&image, &validation, &verdict);
                }
            }
        }
    }
}

/// Fails unless an accepted image is what the policy promises to its receiver.
fn keeps_promises(image: &Arc<dyn BlockRead>, validation: &ValidateOptions, verdict: &Verdict) {
    let format: Format = verdict.format.parse().expect("a known format");
    assert!(validation.policy.formats().contains(&format));
    assert!(validation.claimed.is_none_or(|claimed| claimed == format));
    let size_bytes = verdict
        .virtual_size_bytes
        .expect("an accepted image has a size");
    assert!(size_bytes <= SIZE_LIMIT_BYTES);
    let options = OpenOptions {
        format: Some(format),
        gate: Gate::closed(),
        ..OpenOptions::default()
    };
    // Tables that no rule is about can be wrong, but no other file is needed.
    if let Ok(opened) = Image::from_device(Arc::clone(image), &options) {
        let description = opened.description();
        assert!(description.backing.is_none());
        let details = description.qcow2.as_ref();
        assert!(details.is_none_or(|qcow2| qcow2.data_file.is_none()));
        assert_eq!(description.virtual_size_bytes, size_bytes);
    }
}

/// Returns an image for each rule.
pub(crate) fn seeds() -> impl Iterator<Item = (&'static str, Sparse)> {
    let made = [
        (
            "a backing file",
            qcow2(|image| image.write(8, b"\0\0\0\0\0\0\x01\0\0\0\0\x04")),
        ),
        (
            "a data file",
            qcow2(|image| {
                image.write(79, b"\x04");
                image.write(104, b"DATA\0\0\0\x04name");
            }),
        ),
        (
            "an unknown feature",
            qcow2(|image| image.write(72, b"\x80")),
        ),
        ("a large L1 table", qcow2(|image| image.write(36, b"\x7f"))),
        ("a hybrid ISO", hybrid()),
        ("an image in an image", nested()),
    ];
    made.into_iter()
        .chain(image_maps::seeds())
        .chain(vmdk::seeds())
        .chain(luks::seeds())
        .chain(ova::seeds())
}

/// Returns a changed qcow2 image of version 3, with clusters of 512 bytes.
fn qcow2(change: impl Fn(&mut Sparse)) -> Sparse {
    let mut image = Sparse::zeroes(8192);
    image.write(0, b"QFI\xfb\0\0\0\x03");
    image.write(20, b"\0\0\0\x09\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\x04");
    image.write(46, b"\x02\0\0\0\0\0\0\x04\0\0\0\0\x01");
    image.write(99, b"\x04\0\0\0\x68");
    change(&mut image);
    image
}

/// Returns a disk that is an ISO image and has a GPT.
fn hybrid() -> Sparse {
    let mut image = Sparse::zeroes(64 << 10);
    image.write(512, b"EFI PART");
    image.write(32_769, b"CD001");
    image
}

/// Returns a VDI whose disk begins as a qcow2 image.
fn nested() -> Sparse {
    let vdi = image_maps::seeds().find(|(name, _)| *name == "vdi");
    let (_, mut image) = vdi.expect("there is a VDI");
    image.write(1024, b"QFI\xfb\0\0\0\x03");
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rule but `unsupported` is broken by a seed, so that mutations start on both of its sides.
    #[test]
    fn seeds_break_rules() {
        let mut broken: Vec<_> = Vec::new();
        for (name, image) in seeds() {
            let device: Arc<dyn BlockRead> = Arc::new(image);
            let takes = [
                (Policy::Glance, None, SIZE_LIMIT_BYTES),
                (Policy::Cdi, Some(Format::Raw), 1 << 10),
            ];
            for (policy, claimed, limit_bytes) in takes {
                let validation = ValidateOptions {
                    policy,
                    claimed,
                    size_limit_bytes: Some(limit_bytes),
                };
                let verdict = validate_device(name.as_ref(), Arc::clone(&device), &validation);
                broken.extend(
                    verdict
                        .unwrap()
                        .broken
                        .iter()
                        .map(|broken| broken.rule.id()),
                );
            }
        }
        let rules = [
            "format",
            "format-mismatch",
            "polyglot",
            "nested-format",
            "backing-file",
            "data-file",
            "extent-file",
            "vmdk-type",
            "unknown-feature",
            "metadata-size",
            "corrupt",
            "size",
        ];
        let missing: Vec<_> = rules.iter().filter(|rule| !broken.contains(rule)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
