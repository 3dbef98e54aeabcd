//! Names of attributes: a prefix that is stored as a number, and the rest.

use diskfs_block::bytes::index;

/// The bytes of a name that come before those that are stored.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    /// The number of the short prefix.
    pub(crate) base: u8,
    /// The bytes that follow it.
    pub(crate) infix: Vec<u8>,
}

/// Returns the bytes of the short prefix with a number; `None` for one that Linux does not show.
fn short(number: u8) -> Option<&'static [u8]> {
    Some(match number {
        1 => b"user.",
        2 => b"system.posix_acl_access",
        3 => b"system.posix_acl_default",
        4 => b"trusted.",
        6 => b"security.",
        _ => return None,
    })
}

/// Returns the full name of an attribute; `None` for one that Linux does not show.
pub(crate) fn full_name(prefixes: &[Prefix], number: u8, rest: &[u8]) -> Option<Vec<u8>> {
    /// The bit of a number that says that it is that of a long prefix.
    const LONG: u8 = 0x80;
    if number & LONG == 0 {
        return Some([short(number)?, rest].concat());
    }
    let prefix = prefixes.get(index(number & !LONG))?;
    Some([short(prefix.base)?, &prefix.infix, rest].concat())
}
