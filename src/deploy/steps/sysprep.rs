//! What makes a guest a template: all that it has kept of the machine that it was, taken away by name.

mod operations;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use crate::Result;

pub use operations::{OPERATIONS, Operation};

/// Operations by name; `defaults` are those that are on by themselves, and `-NAME` leaves one out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Sysprep(pub Vec<String>);

impl Sysprep {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        for operation in self.chosen(guest)? {
            operation.apply(guest)?;
        }
        Ok(())
    }

    /// In the order of the table, each once.
    fn chosen(&self, guest: &Guest) -> Result<Vec<&'static Operation>> {
        let mut chosen = vec![false; OPERATIONS.len()];
        for word in &self.0 {
            let (name, is_on) = match word.strip_prefix('-') {
                Some(name) => (name, false),
                None => (&**word, true),
            };
            let mut is_known = false;
            for (operation, chosen) in OPERATIONS.iter().zip(&mut chosen) {
                let is_it = operation.name == name
                    || name == "all"
                    || (name == "defaults" && operation.is_default);
                if is_it {
                    *chosen = is_on;
                    is_known = true;
                }
            }
            if !is_known {
                let reason = format!("there is no operation `{name}` of sysprep");
                let hint = "`diskfs deploy --list-operations` lists them";
                return Err(guest.invalid(reason).with_hint(hint));
            }
        }
        let pairs = OPERATIONS.iter().zip(chosen);
        Ok(pairs
            .filter_map(|(it, chosen)| chosen.then_some(it))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest, text};
    use super::*;

    const GUEST: &str = "-- /etc/machine-id --\n0123456789abcdef0123456789abcdef\n-- /etc/ssh/ssh_host_rsa_key --\nx\n-- /etc/ssh/sshd_config --\nx\n\
        -- /root/.bash_history --\nx\n-- /home/ann/.bash_history --\nx\n-- /home/ann/notes --\nx\n-- /var/log/syslog --\nx\n-- /var/log/waagent.log --\nx\n-- /var/spool/cron/carl --\nx\n-- /var/spool/cron/crontabs/ann --\nx\n\
        -- /var/log/journal/1/system.journal --\nx\n-- /tmp/x/y --\nx\n-- /var/lib/dhcp/dhclient.eth0.leases --\nx\n\
        -- /etc/udev/rules.d/70-persistent-net.rules --\nx\n-- /var/cache/apt/archives/a.deb --\nx\n-- /var/cache/apt/archives/partial/b --\nx\n-- /etc/passwd- --\nx\n\
        -- /usr/lib/systemd/systemd --\nx\n";

    #[test]
    fn a_template_has_nothing_of_the_machine_that_it_was() {
        let guest = after(GUEST, "- sysprep: [defaults]");
        for gone in [
            "/etc/ssh/ssh_host_rsa_key",
            "/root/.bash_history",
            "/home/ann/.bash_history",
            "/tmp/x",
            "/var/lib/dhcp/dhclient.eth0.leases",
            "/etc/udev/rules.d/70-persistent-net.rules",
            "/var/cache/apt/archives/a.deb",
            "/etc/passwd-",
            "/var/spool/cron/carl",
            "/var/spool/cron/crontabs/ann",
            "/var/log/journal/1/system.journal",
        ] {
            assert!(!guest.stage.exists(gone).unwrap(), "{gone}");
        }
        for kept in [
            "/etc/ssh/sshd_config",
            "/home/ann/notes",
            "/tmp",
            "/var/log/journal",
        ] {
            assert!(guest.stage.exists(kept).unwrap(), "{kept}");
        }
        assert_eq!(text(&guest, "/var/log/syslog"), "");
        assert_eq!(text(&guest, "/var/log/waagent.log"), "");
        assert_eq!(text(&guest, "/etc/machine-id"), "");
    }

    #[test]
    fn operations_are_chosen_by_name() {
        let guest_after = after(GUEST, "- sysprep: [defaults, -ssh-hostkeys, -logfiles]");
        assert!(
            guest_after
                .stage
                .exists("/etc/ssh/ssh_host_rsa_key")
                .unwrap()
        );
        assert_eq!(text(&guest_after, "/var/log/syslog"), "x\n");
        assert!(!guest_after.stage.exists("/tmp/x").unwrap());
        assert!(apply(&mut guest(GUEST), "- sysprep: [nothing]").is_err());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = OPERATIONS.iter().map(|it| it.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATIONS.len());
    }
}
