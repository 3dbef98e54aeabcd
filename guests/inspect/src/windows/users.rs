//! The user accounts of SAM. Microsoft does not document the values `F` and `V`; their fields are
//! those on which the sources of Samba and other programs agree (`F`: `SAM_ACCOUNT_INFO` with the
//! flags of MS-SAMR 2.2.1.12 at 0x38; `V`: offsets and lengths of the other attributes, relative to
//! 0xcc).

use diskfs_registry::{Key, Value};

use super::hives::{Hives, OpenHive, utf16};
use crate::{Password, User};

const USERS: &str = r"SAM\Domains\Account\Users";

/// The limit on local users; the users of a domain are not here.
const MAX_USERS: usize = 10_000;

/// The base of the offsets in `V`.
const ATTRIBUTES: usize = 0xcc;

/// The flag `USER_ACCOUNT_DISABLED`.
const IS_DISABLED: u8 = 1;

pub(super) fn of(hives: &Hives<'_>) -> Vec<User> {
    let Some(sam) = &hives.sam else {
        return Vec::new();
    };
    let Some(key) = sam.key(USERS) else {
        return Vec::new();
    };
    sam.add_source("users");
    let keys = sam.subkeys(&key, MAX_USERS);
    keys.iter().filter_map(|key| user(sam, key)).collect()
}

/// Returns the user of a key, whose name is the RID; `None` for the key `Names`.
fn user(sam: &OpenHive<'_>, key: &Key<'_>) -> Option<User> {
    let rid = u32::from_str_radix(&key.name(), 16).ok()?;
    let (f, v) = (bytes(sam, key, "F")?, bytes(sam, key, "V")?);
    let is_disabled = f.get(0x38).is_some_and(|flags| flags & IS_DISABLED != 0);
    Some(User {
        name: text(&v, 0x0c)?,
        uid: rid,
        gid: number(&f, 0x34).unwrap_or(0),
        comment: text(&v, 0x18).unwrap_or_default(),
        home: String::new(),
        shell: String::new(),
        password: if is_disabled {
            Some(Password::Locked)
        } else {
            password(&v)
        },
    })
}

/// Returns the state of the password from the length of its hash: an encrypted hash after its
/// header (RC4, AES), or only the header.
fn password(v: &[u8]) -> Option<Password> {
    match number(v, 0xac)? {
        0x14 | 0x38 => Some(Password::Set),
        0 | 4 | 0x18 => Some(Password::Empty),
        _ => None,
    }
}

fn bytes(sam: &OpenHive<'_>, key: &Key<'_>, name: &str) -> Option<Vec<u8>> {
    match sam.read(key.value(name))?? {
        Value::Binary(bytes) => Some(bytes),
        _ => None,
    }
}

/// Returns the text whose offset and length are at `at`.
fn text(v: &[u8], at: usize) -> Option<String> {
    let start = ATTRIBUTES.checked_add(usize::try_from(number(v, at)?).ok()?)?;
    let len = usize::try_from(number(v, at + 4)?).ok()?;
    Some(utf16(v.get(start..start.checked_add(len)?)?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
