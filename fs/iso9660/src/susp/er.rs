//! The `ER` entry: the extensions in use (SUSP, 5.5).

use super::SystemUse;

/// The identifiers of Rock Ridge, in the order of its versions.
const ROCK_RIDGE: [&[u8]; 3] = [b"RRIP_1991A", b"IEEE_P1282", b"IEEE_1282"];

/// Returns true if the entries of the root's own record declare that Rock Ridge is in use.
///
/// The first writers of Rock Ridge had no `ER` entry, but an `RR` entry in each record.
pub(crate) fn names_rock_ridge(root: &SystemUse) -> bool {
    root.all(b"ER").any(is_rock_ridge) || root.first(b"RR").is_some()
}

/// Returns true if the identifier is one of Rock Ridge. The data is the lengths of identifier,
/// descriptor and source, the version, and then these texts.
fn is_rock_ridge(data: &[u8]) -> bool {
    let Some((len, texts)) = data.first().zip(data.get(4..)) else {
        return false;
    };
    let identifier = texts.get(..usize::from(*len));
    identifier.is_some_and(|identifier| ROCK_RIDGE.contains(&identifier))
}
