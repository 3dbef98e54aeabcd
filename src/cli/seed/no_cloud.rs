//! `diskfs seed nocloud`: cloud-init's data source NoCloud.

use std::path::PathBuf;

use clap::Args;
use diskfs::Result;
use serde_json::{Map, Value};

use super::identity::{IdentityArgs, numbered};
use super::{OutputArgs, Seed, file, input, lint};

/// Make a disk for cloud-init's data source NoCloud, with the label cidata
///
/// Without --meta-data, the meta-data is made of the other options. cloud-init treats a guest as a
/// new one if the instance ID changes: by default, it is a hash of the seed's contents.
#[derive(Debug, Args)]
#[command(
    after_help = "User data that begins with `#cloud-config` must be a YAML mapping.

Examples:
  diskfs seed nocloud --user-data user-data --hostname web1 --ssh-key key.pub -o web1.iso
  diskfs seed nocloud --user-data user-data --meta-data meta-data -o web2.iso"
)]
pub(super) struct NoCloud {
    /// The user data: a file that begins with `#cloud-config`, a script, or a MIME archive [default:
    /// empty]
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,

    /// The meta-data: a YAML mapping with `instance-id`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["instance_id", "hostname", "ssh_key"])]
    meta_data: Option<PathBuf>,

    #[command(flatten)]
    identity: IdentityArgs,

    /// The network configuration: YAML of version 1 or 2
    #[arg(long, value_name = "FILE")]
    network_config: Option<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

impl NoCloud {
    /// Returns the seed.
    pub(super) fn seed(&self) -> Result<Seed<'_>> {
        let mut warnings = Vec::new();
        let user_data = input::read_user_data(self.user_data.as_deref(), &mut warnings)?;
        let network = input::read_optional(self.network_config.as_deref())?;
        if let (Some(path), Some(network)) = (&self.network_config, &network) {
            lint::network_config(path, network)?;
        }
        let meta_data = if let Some(path) = &self.meta_data {
            let text = input::read(path)?;
            lint::meta_data(path, &text, &mut warnings)?;
            text
        } else {
            self.meta_data(&user_data, network.as_deref())?
        };
        let mut files = vec![file("meta-data", meta_data), file("user-data", user_data)];
        files.extend(network.map(|network| file("network-config", network)));
        Ok(Seed {
            kind: "nocloud",
            label: "cidata",
            files,
            warnings,
            output: &self.output,
        })
    }

    /// Returns the meta-data of the options, in JSON, which is YAML, too.
    fn meta_data(&self, user_data: &[u8], network: Option<&[u8]>) -> Result<Vec<u8>> {
        let keys = self.identity.keys()?;
        let mut fields = Map::new();
        if let Some(hostname) = &self.identity.hostname {
            fields.insert("local-hostname".to_owned(), hostname.clone().into());
        }
        if !keys.is_empty() {
            fields.insert("public-keys".to_owned(), numbered(&keys));
        }
        let id = self.identity.instance_id.clone().unwrap_or_else(|| {
            let others = Value::Object(fields.clone()).to_string();
            let parts = [others.as_bytes(), user_data, network.unwrap_or_default()];
            format!("iid-{}", super::identity::uuid_of(&parts))
        });
        fields.insert("instance-id".to_owned(), id.into());
        Ok(super::identity::text(fields))
    }
}
