//! Modes and owners, as a plan names them.

use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::super::super::accounts;
use super::super::super::guest::Guest;
use diskfs_disk::{Error, Result};

/// The low 12 bits of a mode. In a plan octal digits: `0644`, `"644"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u16);

/// A user, and a group where there is a colon, by name as the guest knows it or by number: `ann`, `ann:staff`, `1000:50`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Owner(pub String);

impl Mode {
    /// That of a file of this machine.
    pub(super) fn of_host(path: &Path) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let metadata = std::fs::metadata(path).map_err(|e| Error::from(e).in_file(path))?;
        // Masked, so that it fits.
        let bits = metadata.permissions().mode() & 0o7777;
        Ok(Self(u16::try_from(bits).unwrap_or(0o644)))
    }

    /// That of octal digits.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let bits = u16::from_str_radix(digits, 8).ok();
        let bits = bits.filter(|bits| *bits <= 0o7777);
        bits.map(Self)
            .ok_or_else(|| format!("`{text}` is no mode: write octal digits, as in 0644"))
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for Mode {
    /// From a text, for a number has lost the digits that it was written with.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Mode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "The low 12 bits of a mode, in octal digits: `0644`, `\"644\"`.",
            "type": ["string", "integer"],
        })
    }
}

/// Sets what is given, of what is there; symlinks are followed.
pub(super) fn set(
    guest: &mut Guest,
    path: &str,
    mode: Option<Mode>,
    owner: Option<&Owner>,
) -> Result<()> {
    if let Some(Mode(permissions)) = mode {
        guest.stage.set_permissions(path, permissions)?;
    }
    if let Some(owner) = owner {
        let (uid, gid) = numbers(guest, owner)?;
        let before = guest.stage.entry(path)?;
        let gid = gid.unwrap_or_else(|| before.map_or(0, |before| before.gid));
        guest.stage.set_owner(path, uid, gid)?;
    }
    Ok(())
}

/// The numbers of an owner; of one without a group, the group stays.
pub(super) fn numbers(guest: &Guest, owner: &Owner) -> Result<(u32, Option<u32>)> {
    let (user, group) = match owner.0.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (&*owner.0, None),
    };
    let known = accounts::user(&guest.stage, user)?.map(|user| user.uid);
    let uid = known.or(user.parse().ok());
    let uid = uid.ok_or_else(|| guest.invalid(format!("the guest has no user `{user}`")))?;
    let Some(group) = group else {
        return Ok((uid, None));
    };
    let known = accounts::gid_of(&guest.stage, group)?;
    let gid = known.or(group.parse().ok());
    let gid = gid.ok_or_else(|| guest.invalid(format!("the guest has no group `{group}`")))?;
    Ok((uid, Some(gid)))
}
