//! The configuration of an image (OCI image specification, "Image Configuration").

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use diskfs_disk::{Error, ErrorKind, Result};

use super::platform::Platform;
use crate::digest::Digest;

/// The configuration of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The platform that the image is for.
    pub platform: Platform,
    /// The process that a container of the image runs.
    pub process: Process,
    /// The digests of the decompressed layers, the lowest first.
    pub diff_ids: Vec<Digest>,
}

/// The process that a container of an image runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Process {
    /// The environment, as `NAME=VALUE`.
    #[serde(rename = "Env", default, deserialize_with = "or_default")]
    pub env: Vec<String>,
    /// The first words of the command.
    #[serde(rename = "Entrypoint", default, deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    /// The words after the entry point, or the command if there is none.
    #[serde(rename = "Cmd", default, deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// The user, and the group after a colon, as names or numbers; empty for root.
    #[serde(rename = "User", default, deserialize_with = "or_default")]
    pub user: String,
    /// The directory in which the process starts; empty for the root directory.
    #[serde(rename = "WorkingDir", default, deserialize_with = "or_default")]
    pub working_dir: String,
    /// The labels of the image.
    #[serde(rename = "Labels", default, deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// The signal that stops the process, as a name or a number; empty for `SIGTERM`.
    #[serde(rename = "StopSignal", default, deserialize_with = "or_default")]
    pub stop_signal: String,
}

/// Reads `null` as an empty value: Docker writes it.
fn or_default<'de, D, T>(deserializer: D) -> std::result::Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// The configuration as it is stored.
#[derive(Debug, Deserialize)]
struct Stored {
    #[serde(flatten)]
    platform: Platform,
    #[serde(default, deserialize_with = "or_default")]
    config: Process,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "or_default")]
    diff_ids: Vec<String>,
}

impl Config {
    /// Parses a configuration.
    ///
    /// # Errors
    /// `Corrupt` for invalid JSON; `Unsupported` if the layers are not file trees.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let stored: Stored = super::json::parse(bytes, "configuration of the image")?;
        if stored.rootfs.kind != "layers" {
            let reason = format!(
                "root filesystems of type `{}` are not supported",
                stored.rootfs.kind.escape_debug()
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let diff_ids = stored
            .rootfs
            .diff_ids
            .iter()
            .map(|text| Digest::parse(text));
        Ok(Self {
            platform: stored.platform,
            process: stored.config,
            diff_ids: diff_ids.collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_null_values_are_empty() {
        let digest = Digest::of(b"");
        let text = format!(
            r#"{{"architecture": "arm", "os": "linux", "variant": "v7", "config": {{
                "Cmd": null, "Env": ["A=b"], "WorkingDir": "/w", "Labels": null, "Volumes": {{}}}},
                "rootfs": {{"type": "layers", "diff_ids": ["{digest}"]}}}}"#
        );
        let config = Config::parse(text.as_bytes()).unwrap();
        assert_eq!(config.platform.to_string(), "linux/arm/v7");
        assert_eq!(config.process.env, ["A=b"]);
        assert!(config.process.cmd.is_empty() && config.process.labels.is_empty());
        assert_eq!(config.process.working_dir, "/w");
        assert_eq!(config.diff_ids, [digest]);
        for (bad, kind) in [
            ("{}", ErrorKind::Corrupt),
            (r#"{"rootfs": {"type": "blocks"}}"#, ErrorKind::Unsupported),
        ] {
            assert_eq!(Config::parse(bad.as_bytes()).unwrap_err().kind(), kind);
        }
        let deep = "[".repeat(100_000);
        assert!(Config::parse(deep.as_bytes()).is_err());
    }
}
