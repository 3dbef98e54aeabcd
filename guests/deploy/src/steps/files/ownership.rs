//! Parsing of the modes and owners in plans.

use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::super::super::accounts;
use super::super::super::guest::Guest;
use diskfs_disk::{Error, Result};

/// A file mode: its low 12 bits. In a plan, octal digits: `0644`, `"644"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u16);

/// A user and, after a colon, a group. Each is a name that the guest knows, or a number: `ann`,
/// `ann:staff`, `1000:50`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Owner(pub String);

impl Mode {
    /// Returns the mode of a local file.
    pub(super) fn of_host(path: &Path) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let metadata = std::fs::metadata(path).map_err(|e| Error::from(e).in_file(path))?;
        // The mask makes the value fit.
        let bits = metadata.permissions().mode() & 0o7777;
        Ok(Self(u16::try_from(bits).unwrap_or(0o644)))
    }

    /// Parses octal digits.
    ///
    /// # Errors
    /// The reason, if the text is not a valid mode.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let bits = u16::from_str_radix(digits, 8).ok();
        let bits = bits.filter(|bits| *bits <= 0o7777);
        bits.map(Self)
            .ok_or_else(|| format!("invalid mode `{text}`: expected octal digits, as in 0644"))
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for Mode {
    /// Deserializes from text, because a parsed number has lost the digits that it was written
    /// with.
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
            "description": "A file mode (its low 12 bits) in octal digits: `0644`, `\"644\"`.",
            "type": ["string", "integer"],
        })
    }
}

/// Sets the mode and owner, if given, of an existing file. Symlinks are followed.
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

/// Resolves an owner to its numbers. Without a group, the file keeps its group.
pub(super) fn numbers(guest: &Guest, owner: &Owner) -> Result<(u32, Option<u32>)> {
    let (user, group) = match owner.0.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (&*owner.0, None),
    };
    let known = accounts::user(&guest.stage, user)?.map(|user| user.uid);
    let uid = known.or(user.parse().ok());
    let uid = uid.ok_or_else(|| guest.invalid(format!("no such user: `{user}`")))?;
    let Some(group) = group else {
        return Ok((uid, None));
    };
    let known = accounts::gid_of(&guest.stage, group)?;
    let gid = known.or(group.parse().ok());
    let gid = gid.ok_or_else(|| guest.invalid(format!("no such group: `{group}`")))?;
    Ok((uid, Some(gid)))
}
