//! The step `sysprep`: removes machine-specific data, so that the guest can serve as a template.

mod fs_uuids;
mod lvm_uuids;
mod named_uuids;
mod operations;
mod users;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use diskfs_disk::Result;

pub use operations::{OPERATIONS, Operation};

/// Operations of virt-sysprep that plans do not support, and what to use instead.
const REFUSED: [(&str, &str); 2] = [
    ("customize", "use other steps of the plan instead"),
    (
        "script",
        "diskfs runs no local scripts: run the script on the files of `diskfs mount`",
    ),
];

/// The operations to run, by name. `defaults` stands for those that are on by default, `all` for
/// all of them; `-NAME` removes an operation from the selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Sysprep(pub Vec<String>);

impl Sysprep {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        for operation in self.chosen(guest)? {
            let is_named = self.0.iter().any(|word| word == operation.name);
            operation.apply(guest, is_named)?;
        }
        Ok(())
    }

    /// Returns the chosen operations, each once, in the order of the table.
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
            let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
            if let Some((_, instead)) = refused.filter(|_| is_on) {
                let reason = format!("the operation `{name}` is not supported");
                return Err(guest.invalid(reason).with_hint(*instead));
            }
            if !is_known && refused.is_none() {
                let reason = format!("unknown operation `{name}`");
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

    /// The operations that virt-sysprep runs by default (`--list-operations` of guestfs-tools
    /// 1.54), without `customize` and `script`, which do nothing without options of their own.
    #[test]
    fn the_defaults_are_those_of_virt_sysprep() {
        const THEIRS: &str = "abrt-data backup-files bash-history blkid-tab crash-data cron-spool dhcp-client-state \
            dhcp-server-state dovecot-data ipa-client kerberos-hostkeytab logfiles lvm-system-devices lvm-uuids machine-id mail-spool \
            net-hostname net-hwaddr net-nmconn pacct-log package-manager-cache pam-data passwd-backups puppet-data-log \
            rh-subscription-manager rhn-systemid rpm-db samba-db-log smolt-uuid ssh-hostkeys ssh-userdir sssd-db-log tmp-files \
            udev-persistent-net utmp yum-uuid zsh-history";
        // In virt-sysprep, `customize` writes a new random seed.
        let ours = OPERATIONS
            .iter()
            .filter(|it| it.is_default && it.name != "random-seed");
        let ours: Vec<&str> = ours.map(|it| it.name).collect();
        let theirs: Vec<&str> = THEIRS.split_whitespace().collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn backups_go_wherever_they_are() {
        let tree = "-- /etc/a/b/c/conf.bak --\nx\n-- /var/lib/x~ --\nx\n-- /etc/dir.bak/kept --\nx\n-- /home/ann/a.bak --\nx\n\
            -- /etc/link~ -> a --\n-- /root/.ssh/authorized_keys --\nx\n-- /home/ann/.ssh/id --\nx\n";
        let mut guest = after(tree, "- sysprep: [backup-files, ssh-userdir]");
        // Files that an earlier step of the plan wrote are removed, too.
        let steps = "- write: {path: /etc/new.bak, text: x}\n- sysprep: [backup-files]";
        apply(&mut guest, steps).unwrap();
        for gone in [
            "/etc/a/b/c/conf.bak",
            "/var/lib/x~",
            "/etc/new.bak",
            "/root/.ssh",
            "/home/ann/.ssh",
        ] {
            assert!(guest.stage.link_entry(gone).unwrap().is_none(), "{gone}");
        }
        for kept in ["/etc/dir.bak/kept", "/home/ann/a.bak", "/etc/link~"] {
            assert!(guest.stage.link_entry(kept).unwrap().is_some(), "{kept}");
        }
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
    fn network_cards_lose_what_is_this_machines() {
        let tree = "-- /etc/sysconfig/network-scripts/ifcfg-eth0 --\nDEVICE=eth0\nHWADDR=52:54:00:00:00:01\nDHCP_HOSTNAME=x\n";
        let guest = after(tree, "- sysprep: [net-hwaddr, net-hostname]");
        let path = "/etc/sysconfig/network-scripts/ifcfg-eth0";
        assert_eq!(text(&guest, path), "DEVICE=eth0\n");
    }

    #[test]
    fn people_go_and_services_stay() {
        let tree = "-- /etc/passwd --\nroot:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nben:x:1001:100::/srv/ben:/bin/sh\n\
            nobody:x:65534:65534::/:/bin/false\n-- /etc/shadow --\nroot:*::::::::\nann:x::::::::\nben:x::::::::\n\
            -- /etc/group --\nroot:x:0:\nann:x:1000:\nusers:x:100:ben,www\nwheel:x:10:ann\n-- /etc/subuid --\nann:100000:65536\n\
            -- /home/ann/x --\nx\n-- /home/carl/x --\nx\n-- /srv/ben/x --\nx\n-- /var/mail/ann --\nx\n";
        let mut guest = after(tree, "- sysprep: [user-account]");
        let passwd = text(&guest, "/etc/passwd");
        assert_eq!(
            passwd,
            "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
        );
        assert_eq!(text(&guest, "/etc/shadow"), "root:*::::::::\n");
        assert_eq!(
            text(&guest, "/etc/group"),
            "root:x:0:\nusers:x:100:www\nwheel:x:10:\n"
        );
        assert_eq!(text(&guest, "/etc/subuid"), "");
        assert_eq!(guest.stage.names("/home").unwrap(), ["carl"]);
        assert!(!guest.stage.exists("/var/mail/ann").unwrap());
        // A directory outside /home may be more than a home directory.
        assert!(guest.stage.exists("/srv/ben/x").unwrap());
        assert!(guest.report("sysprep").notes[0].contains("/srv/ben"));
    }

    #[test]
    fn volumes_that_are_not_known_are_reported() {
        for name in ["lvm-uuids", "fs-uuids"] {
            let error = apply(&mut guest(GUEST), &format!("- sysprep: [{name}]")).unwrap_err();
            assert!(error.to_string().contains("not a whole disk"), "{error}");
        }
        let tree = "-- /etc/lvm/backup/vg0 --\nx\n";
        let mut noted = guest(tree);
        apply(&mut noted, "- sysprep: [defaults]").unwrap();
        let notes = noted.report("sysprep").notes;
        assert!(notes.iter().any(|it| it.contains("lvm-uuids")), "{notes:?}");
        // No note appears if the operation is left out.
        let mut quiet = guest(tree);
        apply(&mut quiet, "- sysprep: [defaults, -lvm-uuids]").unwrap();
        assert!(quiet.report("sysprep").notes.is_empty());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = OPERATIONS.iter().map(|it| it.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATIONS.len());
    }
}
