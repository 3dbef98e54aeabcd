//! `SP`, which says that the protocol is in use (SUSP, 5.3).

/// Where it stands in the root's own record: at the start, or on a CD-ROM XA behind what that has
/// there.
const PLACES: [usize; 2] = [0, 14];

/// How many bytes of each system use area belong to others: told by the `SP` entry in the area of the
/// root's own record. `None` when the protocol is not in use.
pub(crate) fn bytes_skipped(area: &[u8]) -> Option<usize> {
    PLACES.iter().find_map(|place| match area.get(*place..)? {
        [b'S', b'P', 7, 1, 0xbe, 0xef, skipped, ..] => Some(usize::from(*skipped)),
        _ => None,
    })
}

/// Where the entries of the root's own record begin.
pub(crate) fn place(area: &[u8]) -> usize {
    let is_there = |place: &&usize| area.get(**place..).is_some_and(|at| at.starts_with(b"SP"));
    PLACES.iter().find(is_there).copied().unwrap_or_default()
}
