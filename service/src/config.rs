//! The configuration file of the host-deployer: `host.conf`, which is YAML.
//!
//! The file is shared with other programs of the host. Keys that mean nothing here are ignored, and
//! listed in the log.

use std::path::PathBuf;

use diskfs_deploy::Prefix;
use diskfs_disk::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// The settings in a configuration file that mean something here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// `deploy_server_socket_path`: the path of the socket.
    pub socket: Option<PathBuf>,
    /// `deploy_concurrent`: the number of jobs at once.
    pub concurrency: Option<usize>,
    /// `allow_vm_selinux`: leaves SELinux as it is in guests.
    pub allow_selinux: Option<bool>,
    /// `cloudroot_dir`: the parent of the home directory of `cloudroot` in guests.
    pub cloudroot_dir: Option<String>,
    /// `customized_private_prefixes`: more private networks.
    pub private_prefixes: Vec<Prefix>,
    /// `user_data_opens_sshd`: user data permits logins of root and with a password, as with the
    /// host-deployer.
    pub user_data_opens_sshd: Option<bool>,
    /// `agents_dir`: the directory of the programs of agents.
    pub agents: Option<PathBuf>,
    /// `allow_backing`: directories below which images may name files.
    pub allow_backing: Vec<PathBuf>,
    /// The keys that mean nothing here.
    pub ignored: Vec<String>,
}

/// The number of jobs at once that the host-deployer uses instead of a number below 1.
const DEFAULT_CONCURRENCY: usize = 10;

impl Config {
    /// Parses a configuration file.
    ///
    /// # Errors
    /// `Invalid` if the text is not a YAML mapping, or a known key has an invalid value.
    pub fn parse(text: &str) -> Result<Self> {
        if text
            .lines()
            .all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
        {
            return Ok(Self::default());
        }
        let values: Map<String, Value> = serde_saphyr::from_str(text).map_err(|error| {
            let told = error.to_string();
            let told = told.lines().next().unwrap_or_default();
            let told = told.strip_prefix("error: ").unwrap_or(told);
            Error::new(ErrorKind::Invalid, format!("invalid configuration: {told}"))
        })?;
        let mut config = Self::default();
        for (key, value) in values {
            // Options of the command line are written with dashes.
            config.set(&key.replace('-', "_"), &value)?;
        }
        config.ignored.sort();
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<()> {
        let invalid = || {
            let reason = format!("invalid configuration: invalid value {value} of `{key}`");
            Error::new(ErrorKind::Invalid, reason)
        };
        let text = || {
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .ok_or_else(invalid)
        };
        let flag = || value.as_bool().ok_or_else(invalid);
        match key {
            "deploy_server_socket_path" => self.socket = Some(text()?.into()),
            "deploy_concurrent" => {
                let number = value.as_i64().ok_or_else(invalid)?;
                let number = usize::try_from(number).ok().filter(|number| *number > 0);
                self.concurrency = Some(number.unwrap_or(DEFAULT_CONCURRENCY));
            }
            "allow_vm_selinux" => self.allow_selinux = Some(flag()?),
            "cloudroot_dir" => self.cloudroot_dir = Some(text()?.to_owned()),
            "customized_private_prefixes" => {
                let prefixes = words(value).ok_or_else(invalid)?.into_iter();
                let prefixes = prefixes.map(|word| word.parse().map_err(|_| invalid()));
                self.private_prefixes = prefixes.collect::<Result<_>>()?;
            }
            "user_data_opens_sshd" => self.user_data_opens_sshd = Some(flag()?),
            "agents_dir" => self.agents = Some(text()?.into()),
            "allow_backing" => {
                let dirs = words(value).ok_or_else(invalid)?.into_iter();
                self.allow_backing = dirs.map(PathBuf::from).collect();
            }
            _ => self.ignored.push(key.to_owned()),
        }
        Ok(())
    }
}

/// Returns the words of a list, or of a text with commas.
fn words(value: &Value) -> Option<Vec<String>> {
    if let Some(text) = value.as_str() {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        return Some(words.map(str::to_owned).collect());
    }
    let items = value.as_array()?.iter();
    items.map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_keys_are_used_and_others_listed() {
        let config = Config::parse(
            "# host\nregion: Region0\ndeploy_concurrent: 0\nallow_vm_selinux: true\n\
             deploy_server_socket_path: /run/deploy.sock\nimage_deploy_driver: diskfs\n\
             customized_private_prefixes: [9.0.0.0/8]\nallow-backing: /opt/cloud, /srv\n",
        )
        .unwrap();
        assert_eq!(config.concurrency, Some(10));
        assert_eq!(config.allow_selinux, Some(true));
        assert_eq!(config.socket, Some("/run/deploy.sock".into()));
        assert_eq!(config.private_prefixes.len(), 1);
        assert_eq!(config.allow_backing.len(), 2);
        assert_eq!(config.ignored, ["image_deploy_driver", "region"]);
        assert_eq!(Config::parse("\n# x\n").unwrap(), Config::default());
        for text in [
            "- a\n",
            "deploy_concurrent: many\n",
            "allow_vm_selinux: 3\n",
        ] {
            assert_eq!(
                Config::parse(text).unwrap_err().kind(),
                ErrorKind::Invalid,
                "{text}"
            );
        }
    }
}
