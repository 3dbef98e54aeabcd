//! The last shutdown, and hibernation: a hibernated Windows has changes in memory that are not on
//! its disk.

use std::io::Read;

use diskfs_registry::{Filetime, Value};
use serde::Serialize;

use super::hives::Hives;
use diskfs_disk::guest::in_any_case;

/// The state of `hiberfil.sys`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hibernation {
    /// The file contains the memory of the system or, after a shutdown with fast startup, of its
    /// kernel. The filesystems must not be written.
    Hibernated,
    /// The memory was restored from the file.
    Resumed,
    /// The file contains no memory.
    Empty,
}

/// Returns `Control\Windows\ShutdownTime` in RFC 3339.
pub(super) fn last_shutdown(hives: &Hives<'_>) -> Option<String> {
    let system = hives.system.as_ref()?;
    let path = hives.in_control_set(r"Control\Windows");
    let Value::Binary(bytes) = system.value(&path, "ShutdownTime")? else {
        return None;
    };
    let time = u64::from_le_bytes(bytes.try_into().ok()?);
    system.add_source("last_shutdown");
    Some(Filetime(time).to_string())
}

pub(super) fn fast_startup(hives: &Hives<'_>) -> Option<bool> {
    let power = r"Control\Session Manager\Power";
    let enabled = hives.control_number(power, "HiberbootEnabled")?;
    Some(enabled == 1)
}

/// Returns the state from the first four bytes, which Windows writes in upper or lower case.
pub(super) fn hibernation(hives: &Hives<'_>) -> Option<Hibernation> {
    let files = hives.files();
    let path = in_any_case(files.filesystem(), "/hiberfil.sys")?;
    let mut head = [0; 4];
    let mut file = files.filesystem().open(&path).ok()?;
    file.read_exact(&mut head).ok()?;
    let state = match &head.to_ascii_uppercase()[..] {
        b"HIBR" | b"RSTR" => Hibernation::Hibernated,
        b"WAKE" => Hibernation::Resumed,
        [0, 0, 0, 0] => Hibernation::Empty,
        _ => return None,
    };
    files.add_source("hibernation", &path, None);
    Some(state)
}
