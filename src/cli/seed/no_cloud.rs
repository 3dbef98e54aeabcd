//! `diskfs seed nocloud`: cloud-init's data source NoCloud.

use std::path::PathBuf;

use clap::Args;
use diskfs::Result;

use super::cloud_init::{DataSource, Sources};
use super::identity::IdentityArgs;
use super::{OutputArgs, Seed, file, lint};

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

const SOURCE: DataSource = DataSource {
    hostname: "local-hostname",
    keys: "public-keys",
    ids: &["instance-id"],
    id_prefix: "iid-",
    check_meta_data: lint::meta_data,
    check_network: lint::network_config,
};

impl NoCloud {
    /// Returns the seed.
    pub(super) fn seed(&self) -> Result<Seed<'_>> {
        let contents = SOURCE.read(&Sources {
            user_data: self.user_data.as_deref(),
            meta_data: self.meta_data.as_deref(),
            identity: &self.identity,
            network: self.network_config.as_deref(),
        })?;
        let mut files = vec![
            file("meta-data", contents.meta_data),
            file("user-data", contents.user_data.unwrap_or_default()),
        ];
        let network = contents.network;
        files.extend(network.map(|network| file("network-config", network)));
        Ok(Seed {
            kind: "nocloud",
            label: "cidata",
            files,
            warnings: contents.warnings,
            output: &self.output,
        })
    }
}
