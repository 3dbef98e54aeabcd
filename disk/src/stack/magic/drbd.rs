//! DRBD: metadata at the end of the disk that it replicates, and its auxiliary volumes.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

/// Recognises `struct md_on_disk` of versions 8 and 9 in the last 4 KiB, big-endian. The UUID is
/// that of the device.
pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let at = view.size_bytes().checked_sub(4096)?;
    let uuid_at = match view.be32(at + 60) {
        0x8374_026b | 0x8374_026c => 40, // version 8, clean and not
        0x8374_026d => 48,               // version 9
        _ => return None,
    };
    let uuid = view.be64(at + uuid_at);
    Some(container("drbd", Vec::new(), Some(format!("{uuid:x}"))))
}

/// Recognises the control volume of `drbdmanage`.
pub(super) fn manage(view: &View<'_>) -> Option<Content> {
    let uuid: [u8; 32] = view.array(11);
    let is_one = view.has(0, b"$DRBDmgr=q") && uuid.iter().all(u8::is_ascii_hexdigit);
    let uuid = String::from_utf8_lossy(&uuid).into_owned();
    is_one.then(|| container("drbdmanage_control_volume", Vec::new(), Some(uuid)))
}

/// Recognises the log of DRBD Proxy.
pub(super) fn proxy(view: &View<'_>) -> Option<Content> {
    view.has(0, b"DRBDdlh*")
        .then(|| container("drbdproxy_datalog", Vec::new(), view.uuid(16)))
}
