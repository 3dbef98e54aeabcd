//! ACLs as text in pax headers (star's `SCHILY.acl.access`, which GNU tar also writes), converted to
//! the value of setxattr(2).

use diskfs_disk::Result;

use crate::damage::wrong;

/// The version of the format of setxattr(2) (Linux, `POSIX_ACL_XATTR_VERSION`).
const VERSION: u32 = 2;

/// The ID of an entry without one.
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Returns the extended attribute that stores the ACL of a pax keyword.
pub(crate) fn attribute(keyword: &[u8]) -> Option<&'static [u8]> {
    match keyword {
        b"SCHILY.acl.access" => Some(b"system.posix_acl_access"),
        b"SCHILY.acl.default" => Some(b"system.posix_acl_default"),
        _ => None,
    }
}

/// An entry: tag, ID and permissions. The derived order is that of the stored entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    id: u32,
    permissions: u16,
}

/// An entry of the text.
enum Parsed {
    Entry(Entry),
    /// The entry names a user or a group without a number.
    Named,
}

/// Converts the text of an ACL; returns `None` if it names a user or group without a number.
///
/// # Errors
/// `Corrupt` for text that is not an ACL.
pub(crate) fn parse(text: &[u8]) -> Result<Option<Vec<u8>>> {
    let text = std::str::from_utf8(text).map_err(|_| wrong("ACL"))?;
    let separators = |character: char| matches!(character, ',' | '\n');
    let entries = text.split(separators).map(str::trim);
    let mut parsed = Vec::new();
    for entry in entries.filter(|entry| !entry.is_empty()) {
        match parse_entry(entry).ok_or_else(|| wrong("ACL"))? {
            Parsed::Entry(entry) => parsed.push(entry),
            Parsed::Named => return Ok(None),
        }
    }
    parsed.sort_unstable();
    let mut value = VERSION.to_le_bytes().to_vec();
    for entry in parsed {
        value.extend(entry.tag.to_le_bytes());
        value.extend(entry.permissions.to_le_bytes());
        value.extend(entry.id.to_le_bytes());
    }
    Ok(Some(value))
}

/// Parses `TAG:QUALIFIER:PERMISSIONS`, and the number that star adds for a name.
fn parse_entry(entry: &str) -> Option<Parsed> {
    let mut fields = entry.split(':').map(str::trim);
    let kind = fields.next()?;
    let mut next = fields.next()?;
    // The text form may leave out the empty qualifier of `mask` and `other`.
    let mut qualifier = "";
    if let Some(third) = fields.next() {
        (qualifier, next) = (next, third);
    }
    let tag = match (kind, qualifier.is_empty()) {
        ("user" | "u", true) => USER_OBJ,
        ("user" | "u", false) => USER,
        ("group" | "g", true) => GROUP_OBJ,
        ("group" | "g", false) => GROUP,
        ("mask" | "m", true) => MASK,
        ("other" | "o", true) => OTHER,
        _ => return None,
    };
    let permissions = parse_permissions(next)?;
    let id = match qualifier {
        "" => NO_ID,
        name => match fields.next().unwrap_or(name).parse() {
            Ok(id) => id,
            Err(_) => return Some(Parsed::Named),
        },
    };
    Some(Parsed::Entry(Entry {
        tag,
        id,
        permissions,
    }))
}

/// Parses `rwx`, where `-` stands for a missing permission. A comment may follow.
fn parse_permissions(text: &str) -> Option<u16> {
    let text = text.split('#').next()?.trim();
    let mut bits = 0;
    for character in text.chars() {
        bits |= match character {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_the_value_of_setxattr() {
        let text = "user::rwx,group::r-x,group:70000:r--,user:1001:rw-,mask::rwx,other::r--";
        let value = parse(text.as_bytes()).unwrap().unwrap();
        let entries: Vec<_> = value[4..]
            .chunks(8)
            .map(|entry| (entry[0], entry[2], entry[4..].to_vec()))
            .collect();
        let id = |id: u32| id.to_le_bytes().to_vec();
        assert_eq!(
            entries,
            [
                (1, 7, id(NO_ID)),
                (2, 6, id(1001)),
                (4, 5, id(NO_ID)),
                (8, 4, id(70000)),
                (0x10, 7, id(NO_ID)),
                (0x20, 4, id(NO_ID)),
            ]
        );
        let with_number = "user::rwx,user:ann:rw-:1001,group::r-x,mask::rwx,other::r--";
        assert!(parse(with_number.as_bytes()).unwrap().is_some());
        assert_eq!(parse(b"user::rwx,user:ann:rw-").unwrap(), None);
        for bad in ["user", "who::rwx", "user::rwz", "mask:7:rwx"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
