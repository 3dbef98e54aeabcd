//! The paths of images in requests.

use std::path::PathBuf;

use crate::failure::{Failure, FailureKind};

/// The starts of paths that name storage which diskfs does not open, and what to do instead.
const REFUSED: [(&str, &str, &str); 8] = [
    (
        "rbd:",
        "images in Ceph RBD are not supported",
        "map the image with `rbd map` or `rbd-nbd map` and give the block device",
    ),
    (
        "nbd:",
        "disks behind NBD are not supported",
        "give the image that the NBD server exports, or a block device",
    ),
    (
        "nbd+unix:",
        "disks behind NBD are not supported",
        "give the image that the NBD server exports, or a block device",
    ),
    (
        "[",
        "disks in a datastore of VMware are not supported: they need the proprietary Virtual Disk \
         Development Kit (VDDK)",
        "copy the disk to this host, as a .vmdk file or converted with `qemu-img convert`",
    ),
    (
        "json:",
        "image specifications in JSON are not supported",
        "give the path of an image",
    ),
    (
        "http:",
        "images behind HTTP are not supported",
        "copy the image to this host",
    ),
    (
        "https:",
        "images behind HTTP are not supported",
        "copy the image to this host",
    ),
    (
        "iscsi:",
        "disks behind iSCSI are not supported",
        "log in with `iscsiadm` and give the block device",
    ),
];

/// Returns the path of an image on this host.
pub(super) fn checked(path: &str) -> Result<PathBuf, Failure> {
    if let Some((_, reason, hint)) = REFUSED.iter().find(|(start, ..)| path.starts_with(*start)) {
        let message = format!("{path}: {reason}; {hint}");
        return Err(Failure::new(FailureKind::Unsupported, message));
    }
    if path.is_empty() {
        return Err(Failure::invalid("missing path of the disk"));
    }
    if !path.starts_with('/') || path.contains('\0') {
        let message = format!("invalid path `{path}` of a disk: expected an absolute path");
        return Err(Failure::invalid(message));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_storage_is_answered_by_name() {
        for (path, word) in [
            ("rbd:pool/img:conf=x", "Ceph RBD"),
            ("nbd://127.0.0.1:10809/", "NBD"),
            ("[datastore1] vm/vm.vmdk", "VMware"),
        ] {
            let failure = checked(path).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.message.contains(word), "{failure:?}");
        }
        for path in ["", "a.qcow2", "../a"] {
            assert_eq!(
                checked(path).unwrap_err().kind,
                FailureKind::Invalid,
                "{path}"
            );
        }
        assert_eq!(
            checked("/dev/vg0/lv").unwrap(),
            PathBuf::from("/dev/vg0/lv")
        );
    }
}
