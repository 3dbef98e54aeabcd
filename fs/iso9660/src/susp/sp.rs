//! The `SP` entry, which declares that SUSP is in use (SUSP, 5.3).

/// The possible positions of `SP` in the root's own record: at the start, or after the attributes
/// of a CD-ROM XA.
const PLACES: [usize; 2] = [0, 14];

/// Returns the number of bytes to skip at the start of each system use area, from the `SP` entry in
/// the area of the root's own record; `None` if SUSP is not in use.
pub(crate) fn bytes_skipped(area: &[u8]) -> Option<usize> {
    PLACES.iter().find_map(|place| match area.get(*place..)? {
        [b'S', b'P', 7, 1, 0xbe, 0xef, skipped, ..] => Some(usize::from(*skipped)),
        _ => None,
    })
}

/// Returns the position of the first entry in the root's own record.
pub(crate) fn place(area: &[u8]) -> usize {
    let is_there = |place: &&usize| area.get(**place..).is_some_and(|at| at.starts_with(b"SP"));
    PLACES.iter().find(is_there).copied().unwrap_or_default()
}
