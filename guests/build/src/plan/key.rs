//! The sources of keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KeySource {
    /// The whole contents of a file, including a newline at its end, as `cryptsetup --key-file`
    /// uses them.
    File(PathBuf),
    /// The value of an environment variable.
    Env(String),
    /// The key itself, which everybody can read who can read the plan.
    InClear(String),
}
