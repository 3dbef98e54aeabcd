//! Filesystems of UNIX System V and Xenix; the magic is at the end of the superblock.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

/// Recognises `struct sysv4_super_block`, after 512 bytes of a block whose number depends on the
/// system.
pub(super) fn sysv(view: &View<'_>) -> Option<Content> {
    let is_superblock = |at: &u64| {
        view.has(at + 504, b"\x20\x7e\x18\xfd") || view.has(at + 504, b"\xfd\x18\x7e\x20")
    };
    let mut places = [0, 9, 15, 18].into_iter().map(|block| block * 1024 + 512);
    let at = places.find(is_superblock)?;
    Some(filesystem("sysv", view.label::<6>(at + 440), None))
}

/// Recognises `struct xenix_super_block`.
pub(super) fn xenix(view: &View<'_>) -> Option<Content> {
    const SB: u64 = 1024;
    let magics = [b"\x44\x55\x2b\0", b"\0\x2b\x55\x44"];
    magics
        .iter()
        .any(|magic| view.has(SB + 1016, *magic))
        .then(|| filesystem("xenix", view.label::<6>(SB + 632), None))
}
