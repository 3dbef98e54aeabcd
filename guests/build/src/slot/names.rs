//! The names of volume groups, logical volumes and decrypted volumes.

use diskfs_disk::Result;

use crate::problem::invalid;

/// Checks a name against the rules of lvm(8), which also suit device-mapper.
///
/// # Errors
/// `Invalid` with the key.
pub(super) fn check(name: &str, key: &str) -> Result<()> {
    let is_valid = !name.is_empty()
        && name.len() <= 127
        && !name.starts_with('-')
        && !matches!(name, "." | "..")
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+_.-".contains(c));
    if is_valid {
        return Ok(());
    }
    let shown = name.escape_debug();
    let reason =
        format!("invalid name `{shown}`: expected letters, digits and the characters +_.-");
    Err(invalid(key, reason))
}

/// Returns the device of a logical volume in the running system, in which dashes are doubled.
pub(super) fn mapper(group: &str, volume: &str) -> String {
    let doubled = |name: &str| name.replace('-', "--");
    format!("/dev/mapper/{}-{}", doubled(group), doubled(volume))
}
