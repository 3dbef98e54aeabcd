//! UFS of the BSDs and of Solaris: `struct fs`, in either byte order, in one of four places.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

/// The magic numbers of UFS1, UFS2, and three variants of UFS1 (`ufs_fs.h` in Linux).
const MAGICS: [u32; 5] = [
    0x0001_1954,
    0x1954_0119,
    0x0019_5612,
    0x0009_5014,
    0x0523_1994,
];
const UFS2: u32 = 0x1954_0119;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    [0, 8 << 10, 64 << 10]
        .into_iter()
        .find_map(|at| of(view, at))
}

/// Recognises UFS in the last place, which is far from the others.
pub(super) fn far(view: &View<'_>) -> Option<Content> {
    of(view, 256 << 10)
}

fn of(view: &View<'_>, at: u64) -> Option<Content> {
    let magic_at = at + 1372;
    let is_little = MAGICS.contains(&view.le32(magic_at));
    let number = |at| {
        if is_little {
            view.le32(at)
        } else {
            view.be32(at)
        }
    };
    let magic = number(magic_at);
    if !MAGICS.contains(&magic) {
        return None;
    }
    let label = match magic {
        UFS2 => view.label::<32>(at + 680), // fs_volname
        _ => Vec::new(),
    };
    let id = [number(at + 144), number(at + 148)]; // fs_id
    let uuid = (id != [0, 0]).then(|| format!("{:08x}{:08x}", id[0], id[1]));
    Some(filesystem("ufs", label, uuid))
}
