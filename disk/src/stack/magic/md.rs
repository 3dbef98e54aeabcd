//! Members of md arrays (md(4)).

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

/// The magic number at the start of `mdp_superblock_s` and `mdp_superblock_1`.
const MAGIC: u32 = 0xa92b_4efc;

/// Recognises versions 1.1 (at 0) and 1.2 (at 4 KiB).
pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let at = [0, 4096].into_iter().find(|at| is_version_1(view, *at))?;
    Some(version_1(view, at))
}

/// Recognises versions 0.90 and 1.0. Their superblock is at the end, and the filesystem of a mirror
/// is readable without it, so they count only if nothing is recognised at the start.
pub(super) fn at_end(view: &View<'_>) -> Option<Content> {
    let size_bytes = view.size_bytes();
    let at = (size_bytes / 512).checked_sub(16)? / 8 * 4096;
    if is_version_1(view, at) {
        return Some(version_1(view, at));
    }
    let at = (size_bytes / 65536).checked_sub(1)? * 65536;
    (view.le32(at) == MAGIC && view.le32(at + 4) == 0).then(|| {
        let mut uuid = [0; 16]; // set_uuid0, then set_uuid1 and the others
        uuid[..4].copy_from_slice(&view.array::<4>(at + 20));
        uuid[4..].copy_from_slice(&view.array::<12>(at + 52));
        uuid.chunks_exact_mut(4).for_each(<[u8]>::reverse); // Printed as four numbers.
        container("linux_raid_member", Vec::new(), super::uuid::text(uuid))
    })
}

fn is_version_1(view: &View<'_>, at: u64) -> bool {
    view.le32(at) == MAGIC && view.le32(at + 4) == 1 // magic, major_version
}

fn version_1(view: &View<'_>, at: u64) -> Content {
    let (name, uuid) = (view.label::<32>(at + 32), view.uuid(at + 16));
    container("linux_raid_member", name, uuid)
}
