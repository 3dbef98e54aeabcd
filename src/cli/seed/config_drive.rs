//! `diskfs seed configdrive`: OpenStack's configuration drive.

use std::path::PathBuf;

use clap::Args;
use diskfs::Result;
use serde_json::{Map, Value};

use super::identity::{IdentityArgs, numbered, text, uuid_of};
use super::{OutputArgs, Seed, file, input, lint};

/// Make a configuration drive of OpenStack, with the label config-2
///
/// cloud-init, cloudbase-init and Ignition read it. Without --meta-data, `meta_data.json` is made of
/// the other options. cloud-init treats a guest as a new one if the UUID changes, which is the
/// instance ID: by default, it is a hash of the drive's contents.
#[derive(Debug, Args)]
#[command(
    after_help = "The files are openstack/latest/meta_data.json, user_data and network_data.json.
User data that begins with `#cloud-config` must be a YAML mapping.

Examples:
  diskfs seed configdrive --user-data user-data --hostname web1 -o web1-drive.iso
  diskfs seed configdrive --instance-id web.shop --ssh-key key.pub -o web2-drive.iso"
)]
pub(super) struct ConfigDrive {
    /// The user data: a file that begins with `#cloud-config`, a script, or a MIME archive
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,

    /// The metadata: a JSON object with `uuid`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["instance_id", "hostname", "ssh_key"])]
    meta_data: Option<PathBuf>,

    #[command(flatten)]
    identity: IdentityArgs,

    /// The network configuration: OpenStack's `network_data.json`
    #[arg(long, value_name = "FILE")]
    network_config: Option<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

impl ConfigDrive {
    /// Returns the seed.
    pub(super) fn seed(&self) -> Result<Seed<'_>> {
        let mut warnings = Vec::new();
        let user_data = match &self.user_data {
            Some(path) => Some(input::read_user_data(Some(path), &mut warnings)?),
            None => None,
        };
        let network = input::read_optional(self.network_config.as_deref())?;
        if let (Some(path), Some(network)) = (&self.network_config, &network) {
            lint::json_object(path, network, "network data")?;
        }
        let meta_data = if let Some(path) = &self.meta_data {
            let text = input::read(path)?;
            let fields = lint::json_object(path, &text, "metadata")?;
            if !fields.contains_key("uuid") {
                let path = path.display();
                warnings.push(format!("{path}: missing `uuid`, which cloud-init requires"));
            }
            text
        } else {
            self.meta_data(user_data.as_deref(), network.as_deref())?
        };
        let mut files = vec![latest("meta_data.json", meta_data)];
        files.extend(user_data.map(|text| latest("user_data", text)));
        files.extend(network.map(|text| latest("network_data.json", text)));
        Ok(Seed {
            kind: "configdrive",
            label: "config-2",
            files,
            warnings,
            output: &self.output,
        })
    }

    fn meta_data(&self, user_data: Option<&[u8]>, network: Option<&[u8]>) -> Result<Vec<u8>> {
        let keys = self.identity.keys()?;
        let mut fields = Map::new();
        if let Some(hostname) = &self.identity.hostname {
            fields.insert("hostname".to_owned(), hostname.clone().into());
        }
        if !keys.is_empty() {
            fields.insert("public_keys".to_owned(), numbered(&keys));
        }
        let id = self.identity.instance_id.clone().unwrap_or_else(|| {
            let others = Value::Object(fields.clone()).to_string();
            let parts = [
                others.as_bytes(),
                user_data.unwrap_or_default(),
                network.unwrap_or_default(),
            ];
            uuid_of(&parts)
        });
        // cloud-init reads `uuid`; KubeVirt writes `instance_id`.
        fields.insert("instance_id".to_owned(), id.clone().into());
        fields.insert("uuid".to_owned(), id.into());
        Ok(text(fields))
    }
}

fn latest(name: &str, contents: Vec<u8>) -> diskfs_iso9660::NewFile {
    file(&format!("openstack/latest/{name}"), contents)
}
