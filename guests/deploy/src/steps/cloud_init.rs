//! The step `cloud-init`: enables or disables cloud-init, removes its state, and writes a `NoCloud`
//! seed.

mod user_data;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::guest::Guest;
use diskfs_disk::Result;

/// The flag file that disables cloud-init.
const DISABLED: &str = "/etc/cloud/cloud-init.disabled";

/// The directory of cloud-init's settings, and our drop-in file there.
const SETTINGS: &str = "/etc/cloud/cloud.cfg.d";
const DATASOURCES: &str = "/etc/cloud/cloud.cfg.d/90-diskfs-datasource.cfg";
const DATASOURCES_TEXT: &str = "# Written by diskfs deploy.\ndatasource_list: [NoCloud, None]\n";

/// The directory where cloud-init looks for a seed in the guest.
const SEED: &str = "/var/lib/cloud/seed/nocloud";

/// The state of an instance, which `cloud-init clean --logs` removes.
const KEPT: [&str; 4] = [
    "/var/lib/cloud/[!s]*",
    "/var/lib/cloud/sem",
    "/var/log/cloud-init*.log",
    "/run/cloud-init",
];

/// The state of cloud-init in the guest, and the data that it finds there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CloudInit {
    /// Enables or disables cloud-init.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Removes the state of the current instance, so that the next boot counts as the first one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
    /// The seed files in the guest, which replace a metadata service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// User data to apply once: a script with a `#!` line, or `#cloud-config`. If cloud-init is
    /// installed and enabled, it gets this as a seed. In other guests, equivalent steps apply it,
    /// and notes list what is not supported.
    #[serde(default, rename = "user-data", skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Applies the user data with steps even if cloud-init is enabled, which then keeps its own
    /// data source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub translate: bool,
}

/// The files of a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Seed {
    /// `instance-id`, `local-hostname` and the like, in YAML.
    #[serde(default)]
    pub meta_data: String,
    /// User data: `#cloud-config`, a script, or another form that cloud-init supports.
    #[serde(default)]
    pub user_data: String,
    /// The vendor data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_data: Option<String>,
    /// The network configuration, version 1 or 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_config: Option<String>,
}

impl CloudInit {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        if self.seed.is_some() && self.user_data.is_some() {
            let reason =
                "`user-data` and `seed` cannot be combined; give the user data in the seed";
            return Err(guest.invalid(reason));
        }
        let is_there = guest.stage.is_dir("/etc/cloud")?;
        if is_there {
            self.apply_to_it(guest)?;
        } else if self.user_data.is_none() {
            guest.note("cloud-init is not installed in the guest: nothing was changed");
        }
        let Some(text) = &self.user_data else {
            return Ok(());
        };
        if self.translate || !is_there || guest.stage.exists(DISABLED)? {
            return user_data::translate(guest, text);
        }
        // The instance ID is derived from the user data, so that cloud-init runs new user data as
        // for a new instance.
        let digest = Sha256::digest(text);
        let id = u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default());
        Seed {
            meta_data: format!("instance-id: iid-{id:016x}\n"),
            user_data: text.clone(),
            vendor_data: None,
            network_config: None,
        }
        .put(guest)
    }

    fn apply_to_it(&self, guest: &mut Guest) -> Result<()> {
        match self.enabled {
            Some(true) => guest.stage.remove(DISABLED)?,
            Some(false) => guest.stage.write_text(DISABLED, "")?,
            None => {}
        }
        if self.clean {
            for pattern in KEPT {
                for path in guest.stage.expand(pattern)? {
                    guest.stage.remove(&path)?;
                }
            }
        }
        match &self.seed {
            Some(seed) => seed.put(guest),
            None => Ok(()),
        }
    }
}

impl Seed {
    fn put(&self, guest: &mut Guest) -> Result<()> {
        guest.stage.make_dirs(SEED, 0o755)?;
        let files = [
            ("meta-data", Some(&self.meta_data)),
            ("user-data", Some(&self.user_data)),
            ("vendor-data", self.vendor_data.as_ref()),
            ("network-config", self.network_config.as_ref()),
        ];
        for (name, text) in files {
            let path = format!("{SEED}/{name}");
            match text {
                // The file may contain passwords.
                Some(text) => guest.stage.write_with(&path, text, 0o600)?,
                None => guest.stage.remove(&path)?,
            }
        }
        guest.stage.make_dirs(SETTINGS, 0o755)?;
        guest.stage.write_with(DATASOURCES, DATASOURCES_TEXT, 0o644)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use diskfs_fixtures::require;

    use super::super::testing::{after, attributes, text};

    #[test]
    fn a_guest_is_made_new_with_a_seed() {
        let tree = "-- /etc/cloud/cloud.cfg --\nx\n-- /etc/cloud/cloud-init.disabled --\n-- /var/lib/cloud/instances/i-1/x --\nx\n\
            -- /var/lib/cloud/seed/other/x --\nx\n-- /var/lib/cloud/sem/x --\nx\n-- /var/log/cloud-init-output.log --\nx\n";
        let steps = "- cloud-init: {enabled: true, clean: true, seed: {meta-data: \"instance-id: i-2\\n\", user-data: \"#cloud-config\\n\"}}";
        let guest = after(tree, steps);
        assert_eq!(guest.stage.names("/var/lib/cloud").unwrap(), ["seed"]);
        assert_eq!(guest.stage.names("/var/log").unwrap(), [""; 0]);
        let seed = "/var/lib/cloud/seed/nocloud";
        assert_eq!(
            text(&guest, &format!("{seed}/meta-data")),
            "instance-id: i-2\n"
        );
        assert_eq!(attributes(&guest, &format!("{seed}/user-data")), "0600 0:0");
        assert!(
            !guest
                .stage
                .exists("/etc/cloud/cloud-init.disabled")
                .unwrap()
        );
    }

    /// The seed has the plan's values, and cloud-init accepts it.
    #[test]
    fn cloud_init_takes_a_seed() {
        if require("cloud-init").is_none() {
            return;
        }
        let steps = "- cloud-init:
    seed:
      user-data: |
        #cloud-config
        users: [{name: ann, sudo: \"ALL=(ALL) NOPASSWD:ALL\"}]
        packages: [htop]
      network-config: |
        version: 2
        ethernets:
          lan: {match: {macaddress: \"52:54:00:12:34:56\"}, set-name: eth0, addresses: [192.0.2.9/24]}";
        let guest = after("-- /etc/cloud/cloud.cfg --\nx\n", steps);
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(
                &path,
                text(&guest, &format!("/var/lib/cloud/seed/nocloud/{name}")),
            )
            .unwrap();
            path
        };
        let judge = |words: &[&str], file: &Path, more: &[&str]| {
            let run = Command::new("cloud-init")
                .args(words)
                .arg(file)
                .args(more)
                .current_dir(&dir)
                .output();
            let run = run.unwrap();
            (run.status.success(), run)
        };
        let (is_good, run) = judge(&["schema", "--config-file"], &file("user-data"), &[]);
        assert!(is_good, "{run:?}");
        // The schema of some versions does not cover network settings. Converting them to a
        // distribution's format works with all versions.
        let words = ["-k", "yaml", "-d", "out", "-D", "debian", "-O", "eni"];
        let network = file("network-config");
        let (is_good, run) = judge(&["devel", "net-convert", "-p"], &network, &words);
        assert!(is_good, "{run:?}");
        let made = dir
            .path()
            .join("out/etc/network/interfaces.d/50-cloud-init");
        let made = std::fs::read_to_string(made).unwrap();
        assert!(
            made.contains("iface eth0 inet static\n    address 192.0.2.9/24"),
            "{made}"
        );
        std::fs::write(&network, "#cloud-config\npackages: 7\n").unwrap();
        assert!(!judge(&["schema", "--config-file"], &network, &[]).0);
    }

    #[test]
    fn or_kept_from_running() {
        let guest = after(
            "-- /etc/cloud/cloud.cfg --\nx\n",
            "- cloud-init: {enabled: false}",
        );
        assert!(
            guest
                .stage
                .exists("/etc/cloud/cloud-init.disabled")
                .unwrap()
        );
    }
}
