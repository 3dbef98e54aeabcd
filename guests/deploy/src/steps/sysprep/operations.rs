//! The table of sysprep operations, with the names of virt-sysprep.

use super::super::super::guest::Guest;
use super::super::super::stage::EntryKind;
use super::super::identity::{MachineId, RandomSeed};
use super::{fs_uuids, lvm_uuids, users};
use diskfs_disk::Result;

/// An operation of `sysprep`, which removes one kind of data.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The operation's name in plans.
    pub name: &'static str,
    /// A short description of the operation.
    pub description: &'static str,
    /// True if `defaults` includes the operation.
    pub is_default: bool,
    actions: &'static [Action],
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// Removes all paths that match these patterns, with everything below them.
    Remove(&'static [&'static str]),
    /// Removes the regular files that match these patterns, and nothing else.
    RemoveFiles(&'static [&'static str]),
    /// Removes backup files of editors below these directories.
    Backups(&'static [&'static str]),
    /// Truncates the files that match these patterns: programs expect the files to exist.
    Empty(&'static [&'static str]),
    /// Truncates the files that match these patterns, except those of the operation `utmp`.
    EmptyLogs(&'static [&'static str]),
    /// Removes lines that set variables: the patterns of the files, and the names of the variables.
    RemoveLines(&'static [&'static str], &'static [&'static str]),
    /// Creates an empty flag file.
    Create(&'static str),
    FsUuids,
    LvmUuids,
    MachineId,
    RandomSeed,
    Users,
}

use Action::{Create, Empty, EmptyLogs, Remove, RemoveFiles, RemoveLines};

const fn usual(
    name: &'static str,
    description: &'static str,
    actions: &'static [Action],
) -> Operation {
    Operation {
        name,
        description,
        is_default: true,
        actions,
    }
}

const fn on_demand(
    name: &'static str,
    description: &'static str,
    actions: &'static [Action],
) -> Operation {
    Operation {
        is_default: false,
        ..usual(name, description, actions)
    }
}

/// The login records: utmp(5).
const LOGINS: [&str; 4] = [
    "/var/log/wtmp",
    "/var/log/btmp",
    "/var/log/lastlog",
    "/var/run/utmp",
];

/// The configuration files of network interfaces on Red Hat and on SUSE.
const IFCFG: [&str; 2] = [
    "/etc/sysconfig/network-scripts/ifcfg-*",
    "/etc/sysconfig/network/ifcfg-*",
];

/// All operations, sorted by name.
pub const OPERATIONS: &[Operation] = &[
    usual(
        "abrt-data",
        "removes crash data of ABRT",
        &[Remove(&["/var/spool/abrt/*"])],
    ),
    usual(
        "backup-files",
        "removes editors' backup files (*~, *.bak) below /etc, /root, /srv, /tmp, /var",
        &[Action::Backups(&["/etc", "/root", "/srv", "/tmp", "/var"])],
    ),
    usual(
        "bash-history",
        "removes shell histories",
        &[Remove(&[
            "/root/.bash_history",
            "/home/*/.bash_history",
            "/root/.ash_history",
            "/home/*/.ash_history",
            "/root/.zsh_history",
            "/home/*/.zsh_history",
        ])],
    ),
    usual(
        "blkid-tab",
        "removes the cache of blkid",
        &[Remove(&[
            "/var/run/blkid.tab*",
            "/var/lib/blkid.tab*",
            "/etc/blkid/blkid.tab*",
            "/etc/blkid.tab*",
        ])],
    ),
    on_demand(
        "ca-certificates",
        "removes the certificates and keys of the guest's own CA",
        &[RemoveFiles(&[
            "/etc/pki/CA/certs/*",
            "/etc/pki/CA/crl/*",
            "/etc/pki/CA/newcerts/*",
            "/etc/pki/CA/private/*",
            "/etc/pki/tls/private/*",
        ])],
    ),
    on_demand(
        "cloud-init",
        "removes cloud-init's data about the instance",
        &[Remove(&[
            "/var/lib/cloud/instance",
            "/var/lib/cloud/instances/*",
            "/var/lib/cloud/data/*",
            "/var/lib/cloud/sem/*",
            "/var/lib/cloud/handlers/*",
            "/var/lib/cloud/scripts/per-*/*",
        ])],
    ),
    usual(
        "crash-data",
        "removes kernel crash dumps",
        &[Remove(&["/var/crash/*", "/var/log/dump/*"])],
    ),
    usual(
        "cron-spool",
        "removes users' cron and at jobs",
        &[RemoveFiles(&[
            "/var/spool/cron/*",
            "/var/spool/cron/crontabs/*",
            "/var/spool/at/*",
            "/var/spool/atjobs/*",
            "/var/spool/atspool/*",
            "/var/spool/anacron/*",
        ])],
    ),
    usual(
        "dhcp-client-state",
        "removes leases of DHCP clients",
        &[Remove(&[
            "/var/lib/dhclient/*",
            "/var/lib/dhcp/*",
            "/var/lib/dhcpcd/*",
            "/var/lib/NetworkManager/*.lease",
            "/var/lib/NetworkManager/dhclient*",
            "/var/lib/systemd/network/*",
            "/var/lib/udhcpc/*",
        ])],
    ),
    usual(
        "dhcp-server-state",
        "removes leases of a DHCP server",
        &[Remove(&[
            "/var/lib/dhcpd/*",
            "/var/lib/misc/dnsmasq.leases",
        ])],
    ),
    usual(
        "dovecot-data",
        "removes the state of Dovecot",
        &[Remove(&["/var/lib/dovecot/*"])],
    ),
    on_demand(
        "firewall-rules",
        "removes firewall rules",
        &[Remove(&[
            "/etc/sysconfig/iptables",
            "/etc/firewalld/services/*",
            "/etc/firewalld/zones/*",
        ])],
    ),
    on_demand(
        "flag-reconfiguration",
        "requests reconfiguration at the next boot (old Red Hat guests)",
        &[Create("/.unconfigured")],
    ),
    on_demand(
        "fs-uuids",
        "replaces the UUIDs of ext2, ext3 and ext4 filesystems",
        &[Action::FsUuids],
    ),
    usual(
        "ipa-client",
        "removes the enrolment as an IPA client",
        &[Remove(&[
            "/etc/ipa/ca.crt",
            "/etc/ipa/default.conf",
            "/var/lib/ipa-client/sysrestore/*",
            "/var/lib/ipa-client/pki/*",
        ])],
    ),
    on_demand(
        "kerberos-data",
        "removes the database of a Kerberos server",
        &[Remove(&["/var/kerberos/krb5kdc/*"])],
    ),
    usual(
        "kerberos-hostkeytab",
        "removes the guest's Kerberos host keys",
        &[Remove(&["/etc/krb5.keytab"])],
    ),
    usual(
        "logfiles",
        "removes or empties log files",
        &[
            Remove(&[
                "/var/log/*.[0-9]",
                "/var/log/*.gz",
                "/var/log/*.xz",
                "/var/log/*.old",
                "/var/log/*-[0-9]*",
                "/var/log/journal/*/*",
                "/var/log/*/*.gz",
                "/var/log/*/*.xz",
                "/var/log/*/*.[0-9]",
                "/var/log/installer/*",
                "/var/log/sa/*",
                "/var/log/anaconda/*",
                "/root/anaconda-ks.cfg",
                "/root/install.log*",
                "/root/original-ks.cfg",
            ]),
            EmptyLogs(&["/var/log/*", "/var/log/*/*"]),
        ],
    ),
    usual(
        "lvm-system-devices",
        "removes LVM's list of known devices",
        &[Remove(&["/etc/lvm/devices/system.devices"])],
    ),
    usual(
        "lvm-uuids",
        "replaces the UUIDs of LVM volume groups and physical volumes",
        &[Action::LvmUuids],
    ),
    usual("machine-id", "resets the machine ID", &[Action::MachineId]),
    usual(
        "mail-spool",
        "removes users' mail",
        &[Remove(&["/var/spool/mail/*", "/var/mail/*"])],
    ),
    usual(
        "net-hostname",
        "removes the host name from settings of network interfaces",
        &[RemoveLines(&IFCFG, &["HOSTNAME", "DHCP_HOSTNAME"])],
    ),
    usual(
        "net-hwaddr",
        "removes MAC addresses from settings of network interfaces",
        &[RemoveLines(&IFCFG, &["HWADDR"])],
    ),
    usual(
        "net-nmconn",
        "removes connection profiles of NetworkManager",
        &[Remove(&["/etc/NetworkManager/system-connections/*"])],
    ),
    usual(
        "pacct-log",
        "empties process accounting logs",
        &[Empty(&["/var/account/pacct*", "/var/log/account/pacct*"])],
    ),
    usual(
        "package-manager-cache",
        "removes the caches of package managers",
        &[Remove(&[
            "/var/cache/apt/archives/*.deb",
            "/var/cache/apt/archives/partial/*",
            "/var/cache/apt/*.bin",
            "/var/cache/dnf/*",
            "/var/cache/libdnf5/*",
            "/var/cache/yum/*",
            "/var/cache/zypp/*",
            "/var/cache/zypper/*",
            "/var/cache/pacman/pkg/*",
            "/var/cache/apk/*",
        ])],
    ),
    usual(
        "pam-data",
        "removes runtime data of PAM modules",
        &[Remove(&[
            "/var/run/console/*",
            "/var/run/faillock/*",
            "/var/run/sepermit/*",
            "/var/lib/faillock/*",
        ])],
    ),
    usual(
        "passwd-backups",
        "removes backups of the user and group databases",
        &[Remove(&[
            "/etc/group-",
            "/etc/gshadow-",
            "/etc/passwd-",
            "/etc/shadow-",
            "/etc/subuid-",
            "/etc/subgid-",
        ])],
    ),
    usual(
        "puppet-data-log",
        "removes the state and logs of Puppet",
        &[Remove(&[
            "/var/log/puppet/*",
            "/var/lib/puppet/*/*",
            "/var/lib/puppet/*",
        ])],
    ),
    usual(
        "random-seed",
        "replaces the random seed",
        &[Action::RandomSeed],
    ),
    usual(
        "rh-subscription-manager",
        "removes Red Hat subscriptions",
        &[Remove(&[
            "/etc/pki/consumer/*",
            "/etc/pki/entitlement/*",
            "/var/lib/rhsm/*",
        ])],
    ),
    usual(
        "rhn-systemid",
        "removes the Red Hat Network system ID",
        &[Remove(&[
            "/etc/sysconfig/rhn/systemid",
            "/etc/sysconfig/rhn/osad-auth.conf",
        ])],
    ),
    usual(
        "rpm-db",
        "removes lock and cache files of the RPM database",
        &[Remove(&["/var/lib/rpm/__db.*"])],
    ),
    usual(
        "samba-db-log",
        "removes the databases and logs of Samba",
        &[Remove(&[
            "/var/log/samba/old/*",
            "/var/log/samba/*",
            "/var/lib/samba/*/*.tdb",
            "/var/lib/samba/*.tdb",
        ])],
    ),
    usual(
        "smolt-uuid",
        "removes the hardware UUID of Smolt",
        &[Remove(&[
            "/etc/sysconfig/hw-uuid",
            "/etc/smolt/uuid",
            "/etc/smolt/hw-uuid",
        ])],
    ),
    usual(
        "ssh-hostkeys",
        "removes the SSH host keys",
        &[Remove(&[
            "/etc/ssh/*_host_*",
            "/etc/dropbear/dropbear_*_host_key",
        ])],
    ),
    usual(
        "ssh-userdir",
        "removes the .ssh directories of users",
        &[Remove(&["/root/.ssh", "/home/*/.ssh"])],
    ),
    usual(
        "sssd-db-log",
        "removes the databases and logs of SSSD",
        &[Remove(&["/var/log/sssd/*", "/var/lib/sss/db/*"])],
    ),
    usual(
        "tmp-files",
        "removes temporary files",
        &[Remove(&[
            "/tmp/*",
            "/tmp/.[!.]*",
            "/var/tmp/*",
            "/var/tmp/.[!.]*",
        ])],
    ),
    usual(
        "udev-persistent-net",
        "removes udev rules with the names of network interfaces",
        &[Remove(&[
            "/etc/udev/rules.d/70-persistent-net.rules",
            "/etc/udev/rules.d/75-persistent-net-generator.rules",
        ])],
    ),
    on_demand(
        "user-account",
        "removes user accounts and their home directories",
        &[Action::Users],
    ),
    usual("utmp", "empties login records", &[Empty(&LOGINS)]),
    usual(
        "yum-uuid",
        "removes the UUID of Yum",
        &[Remove(&["/var/lib/yum/uuid"])],
    ),
    usual(
        "zsh-history",
        "removes the history of zsh",
        &[Remove(&["/root/.zsh_history", "/home/*/.zsh_history"])],
    ),
];

impl Operation {
    /// Applies the operation. `is_named` is true if the plan gives its own name, not only
    /// `defaults` or `all`.
    pub(super) fn apply(&self, guest: &mut Guest, is_named: bool) -> Result<()> {
        for action in self.actions {
            match action {
                Remove(patterns) => {
                    for path in expanded(guest, patterns)? {
                        guest.stage.remove(&path)?;
                    }
                }
                RemoveFiles(patterns) => {
                    for path in files(guest, patterns)? {
                        guest.stage.remove(&path)?;
                    }
                }
                Action::Backups(dirs) => remove_backups(guest, dirs)?,
                Empty(patterns) => {
                    for path in files(guest, patterns)? {
                        guest.stage.write_text(&path, "")?;
                    }
                }
                EmptyLogs(patterns) => {
                    let logs = files(guest, patterns)?.into_iter();
                    for path in logs.filter(|path| !LOGINS.contains(&&**path)) {
                        guest.stage.write_text(&path, "")?;
                    }
                }
                RemoveLines(patterns, keys) => {
                    for path in files(guest, patterns)? {
                        let text = guest.stage.text(&path)?.unwrap_or_default();
                        guest.stage.write_text(&path, &without(&text, keys))?;
                    }
                }
                Create(path) => guest.stage.write_text(path, "")?,
                Action::FsUuids => fs_uuids::renew(guest, is_named)?,
                Action::LvmUuids => lvm_uuids::renew(guest, is_named)?,
                Action::Users => users::remove(guest)?,
                Action::MachineId => MachineId("reset".to_owned()).apply(guest)?,
                Action::RandomSeed => RandomSeed::New.apply(guest)?,
            }
        }
        Ok(())
    }
}

fn remove_backups(guest: &mut Guest, dirs: &[&str]) -> Result<()> {
    let ends =
        |name: &str| name.ends_with('~') || name.rsplit_once('.').is_some_and(|it| it.1 == "bak");
    for dir in dirs {
        let below = guest.stage.files_below(dir, ends)?;
        for path in below.files {
            guest.stage.remove(&path)?;
        }
        if !below.is_complete {
            guest.note(format!("{dir} has too many files: not all were examined"));
        }
    }
    Ok(())
}

/// Returns the text without the lines that set one of the variables.
fn without(text: &str, keys: &[&str]) -> String {
    let sets = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| name.trim());
        name.is_some_and(|name| keys.contains(&name))
    };
    let lines = text.split_inclusive('\n');
    lines.filter(|line| !sets(line)).collect()
}

fn expanded(guest: &Guest, patterns: &[&str]) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for pattern in patterns {
        paths.extend(guest.stage.expand(pattern)?);
    }
    Ok(paths)
}

/// Returns the regular files that match the patterns. Symlinks are not followed.
pub(super) fn files(guest: &Guest, patterns: &[&str]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for path in expanded(guest, patterns)? {
        let entry = guest.stage.link_entry(&path)?;
        if entry.is_some_and(|entry| matches!(entry.kind, EntryKind::File(_))) {
            files.push(path);
        }
    }
    Ok(files)
}
