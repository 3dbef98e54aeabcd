//! XFS (XFS Algorithms & Data Structures, "Superblocks" and "Log Record Headers").

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"XFSB")
        .then(|| filesystem("xfs", view.label::<12>(108), view.uuid(32)))
}

/// Its relative, which keeps the same fields there.
pub(super) fn exfs(view: &View<'_>) -> Option<Content> {
    view.has(0, b"EXFS")
        .then(|| filesystem("exfs", view.label::<12>(108), view.uuid(32)))
}

/// A log on a device of its own: a record begins in one of the first sectors. It goes around, so that
/// any may be the first; they are of 32 KiB unless told otherwise.
pub(super) fn log(view: &View<'_>) -> Option<Content> {
    const SEARCHED: u64 = 64 << 10;
    let mut sectors = (0..SEARCHED / 512).map(|n| n * 512);
    // Whose log it is, it says, too; but the UUID is the filesystem's.
    let is_log = sectors.any(|at| {
        let version = view.be32(at + 8);
        let format = view.be32(at + 300);
        view.has(at, b"\xfe\xed\xba\xbe") && matches!(version, 1 | 2) && (1..=3).contains(&format)
    });
    is_log.then(|| container("xfs_external_log", Vec::new(), None))
}
