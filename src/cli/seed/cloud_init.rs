//! The contents of a seed for cloud-init, whose data sources differ in names and checks.

use std::path::Path;

use diskfs::Result;
use serde_json::{Map, Value};

use super::identity::{IdentityArgs, numbered, text, uuid_of};
use super::{input, lint};

/// The names and the checks of a data source.
pub(super) struct DataSource {
    /// The field of the metadata for the hostname.
    pub(super) hostname: &'static str,
    /// The field of the metadata for the public keys.
    pub(super) keys: &'static str,
    /// The fields of the metadata for the instance ID.
    pub(super) ids: &'static [&'static str],
    /// The start of an instance ID that is a hash.
    pub(super) id_prefix: &'static str,
    /// Checks metadata of the user.
    pub(super) check_meta_data: fn(&Path, &[u8], &mut Vec<String>) -> Result<()>,
    /// Checks a network configuration.
    pub(super) check_network: fn(&Path, &[u8]) -> Result<()>,
}

/// The options that say what a seed contains.
pub(super) struct Sources<'a> {
    pub(super) user_data: Option<&'a Path>,
    /// The metadata; without a file, it is made of the identity.
    pub(super) meta_data: Option<&'a Path>,
    pub(super) identity: &'a IdentityArgs,
    pub(super) network: Option<&'a Path>,
}

/// The contents of the files of a seed.
pub(super) struct Contents {
    pub(super) user_data: Option<Vec<u8>>,
    pub(super) meta_data: Vec<u8>,
    pub(super) network: Option<Vec<u8>>,
    /// Problems that do not prevent making the image.
    pub(super) warnings: Vec<String>,
}

impl DataSource {
    /// Reads and checks the files of the host, and makes the metadata if there is none.
    pub(super) fn read(&self, from: &Sources<'_>) -> Result<Contents> {
        let mut warnings = Vec::new();
        let user_data = input::read_optional(from.user_data)?;
        if let (Some(path), Some(text)) = (from.user_data, &user_data) {
            lint::user_data(path, text, &mut warnings)?;
        }
        let network = input::read_optional(from.network)?;
        if let (Some(path), Some(text)) = (from.network, &network) {
            (self.check_network)(path, text)?;
        }
        let meta_data = if let Some(path) = from.meta_data {
            let text = input::read(path)?;
            (self.check_meta_data)(path, &text, &mut warnings)?;
            text
        } else {
            let others = [&user_data, &network].map(|text| text.as_deref().unwrap_or_default());
            self.meta_data(from.identity, others)?
        };
        Ok(Contents {
            user_data,
            meta_data,
            network,
            warnings,
        })
    }

    /// Returns metadata in JSON, which is YAML, too. Without an instance ID, the ID is a hash of all
    /// contents.
    fn meta_data(&self, identity: &IdentityArgs, others: [&[u8]; 2]) -> Result<Vec<u8>> {
        let keys = identity.keys()?;
        let mut fields = Map::new();
        if let Some(hostname) = &identity.hostname {
            fields.insert(self.hostname.to_owned(), hostname.clone().into());
        }
        if !keys.is_empty() {
            fields.insert(self.keys.to_owned(), numbered(&keys));
        }
        let id = identity.instance_id.clone().unwrap_or_else(|| {
            let own = Value::Object(fields.clone()).to_string();
            let [user_data, network] = others;
            let hash = uuid_of(&[own.as_bytes(), user_data, network]);
            format!("{}{hash}", self.id_prefix)
        });
        for name in self.ids {
            fields.insert((*name).to_owned(), id.clone().into());
        }
        Ok(text(fields))
    }
}
