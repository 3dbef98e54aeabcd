//! VMFS, the filesystem of `ESXi`: the volume's header is at 1 MiB, the filesystem's at 2 MiB.

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

const VOLUME: u64 = 1 << 20;
const FILESYSTEM: u64 = 2 << 20;

pub(super) fn volume(view: &View<'_>) -> Option<Content> {
    view.has(VOLUME, b"\x0d\xd0\x01\xc0")
        .then(|| container("VMFS_volume_member", Vec::new(), volume_uuid(view)))
}

/// Returns the UUID of the logical volume, which is stored as text.
fn volume_uuid(view: &View<'_>) -> Option<String> {
    let text: [u8; 35] = view.array(VOLUME + 512 + 20);
    let is_uuid = text
        .iter()
        .all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let text = String::from_utf8(text.to_vec()).ok();
    text.filter(|_| is_uuid)
}

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(FILESYSTEM, b"\x5e\xf1\xab\x2f").then(|| {
        let label = view.label::<128>(FILESYSTEM + 29);
        filesystem("VMFS", label, uuid(view, FILESYSTEM + 9))
    })
}

/// Returns the UUID in VMFS's own grouping. Its first three numbers are little-endian.
fn uuid(view: &View<'_>, at: u64) -> Option<String> {
    let mut bytes: [u8; 16] = view.array(at);
    bytes[0..4].reverse();
    bytes[4..8].reverse();
    bytes[8..10].reverse();
    let hex = super::uuid::hex(&bytes);
    (bytes != [0; 16]).then(|| super::uuid::grouped(&hex, &[8, 8, 4, 12]))
}
