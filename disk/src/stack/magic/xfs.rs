//! XFS (XFS Algorithms & Data Structures, "Superblocks" and "Log Record Headers").

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(0, b"XFSB")
        .then(|| filesystem("xfs", view.label::<12>(108), view.uuid(32)))
}

/// Recognises EXFS, a variant of XFS with the same fields.
pub(super) fn exfs(view: &View<'_>) -> Option<Content> {
    view.has(0, b"EXFS")
        .then(|| filesystem("exfs", view.label::<12>(108), view.uuid(32)))
}

/// Recognises an external log: a record starts in one of the first sectors. The log is circular, so
/// any record can be the first; records have 32 KiB by default.
pub(super) fn log(view: &View<'_>) -> Option<Content> {
    const SEARCHED: u64 = 64 << 10;
    let mut sectors = (0..SEARCHED / 512).map(|n| n * 512);
    // The header also has the UUID, but that is the filesystem's, not the log's.
    let is_log = sectors.any(|at| {
        let version = view.be32(at + 8);
        let format = view.be32(at + 300);
        view.has(at, b"\xfe\xed\xba\xbe") && matches!(version, 1 | 2) && (1..=3).contains(&format)
    });
    is_log.then(|| container("xfs_external_log", Vec::new(), None))
}
