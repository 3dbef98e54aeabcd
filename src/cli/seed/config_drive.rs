//! `diskfs seed configdrive`: OpenStack's configuration drive.

use std::path::{Path, PathBuf};

use clap::Args;
use diskfs::Result;

use super::cloud_init::{DataSource, Sources};
use super::identity::IdentityArgs;
use super::{OutputArgs, Seed, file, lint};

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

/// cloud-init reads `uuid`; KubeVirt writes `instance_id`.
const SOURCE: DataSource = DataSource {
    hostname: "hostname",
    keys: "public_keys",
    ids: &["instance_id", "uuid"],
    id_prefix: "",
    check_meta_data,
    check_network: |path, text| lint::json_object(path, text, "network data").map(drop),
};

impl ConfigDrive {
    /// Returns the seed.
    pub(super) fn seed(&self) -> Result<Seed<'_>> {
        let contents = SOURCE.read(&Sources {
            user_data: self.user_data.as_deref(),
            meta_data: self.meta_data.as_deref(),
            identity: &self.identity,
            network: self.network_config.as_deref(),
        })?;
        let mut files = vec![latest("meta_data.json", contents.meta_data)];
        files.extend(contents.user_data.map(|text| latest("user_data", text)));
        let network = contents.network;
        files.extend(network.map(|text| latest("network_data.json", text)));
        Ok(Seed {
            kind: "configdrive",
            label: "config-2",
            files,
            warnings: contents.warnings,
            output: &self.output,
        })
    }
}

fn check_meta_data(path: &Path, text: &[u8], warnings: &mut Vec<String>) -> Result<()> {
    let fields = lint::json_object(path, text, "metadata")?;
    if !fields.contains_key("uuid") {
        let path = path.display();
        warnings.push(format!("{path}: missing `uuid`, which cloud-init requires"));
    }
    Ok(())
}

fn latest(name: &str, contents: Vec<u8>) -> diskfs_iso9660::NewFile {
    file(&format!("openstack/latest/{name}"), contents)
}
