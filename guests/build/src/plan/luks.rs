//! Encrypted volumes of a plan.

use serde::{Deserialize, Serialize};

use super::{FilesystemPlan, KeySource, LvmPlan};

/// A LUKS2 volume, with at most one of the keys `filesystem` and `lvm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LuksPlan {
    /// The name of the decrypted volume in the running system, as in `/etc/crypttab`.
    pub name: String,
    /// The passphrase. Default: the option `--key NAME:...` of `diskfs build`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// The key of 64 bytes with which the volume is encrypted; who knows it can read the volume.
    /// Default: a random one, which a plan with a `seed` can't have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_key: Option<KeySource>,
    /// The label of the LUKS header.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The UUID of the LUKS header. Default: derived from the seed, else random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The sector size of the encryption: 512 or 4096 bytes.
    #[serde(default = "sector_size")]
    pub sector_size: u32,
    /// The key derivation of the passphrase. Default: Argon2id with 4 passes over 128 MiB in 4
    /// lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pbkdf: Option<PbkdfPlan>,
    /// A filesystem or a swap area.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemPlan>,
    /// An LVM volume group on the decrypted volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lvm: Option<LvmPlan>,
}

const fn sector_size() -> u32 {
    512
}

/// A key derivation with its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PbkdfPlan {
    /// Argon2id.
    Argon2id {
        /// The number of passes.
        passes: u32,
        /// The memory in KiB.
        memory: u32,
        /// The number of lanes, 1 to 4.
        lanes: u32,
    },
    /// PBKDF2 with SHA-256.
    Pbkdf2 {
        /// The number of iterations, at least 1000.
        iterations: u32,
    },
}
