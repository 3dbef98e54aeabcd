//! The operations, with the names that virt-sysprep has for them.

use super::super::super::guest::Guest;
use super::super::super::stage::Kind;
use super::super::identity::{MachineId, RandomSeed};
use super::{fs_uuids, lvm_uuids, users};
use diskfs_disk::Result;

/// Something that is taken away.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// Whether `defaults` has it.
    pub is_default: bool,
    actions: &'static [Action],
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// Paths of these patterns are removed, with all below.
    Remove(&'static [&'static str]),
    /// Regular files of these patterns are removed, and nothing else.
    RemoveFiles(&'static [&'static str]),
    /// Editors' backups below these directories are removed.
    Backups(&'static [&'static str]),
    /// Files of these patterns are emptied: programs expect them.
    Empty(&'static [&'static str]),
    /// The same but for those of `utmp`, which is an operation of its own.
    EmptyLogs(&'static [&'static str]),
    /// Lines that set these variables, in files of these patterns.
    RemoveLines(&'static [&'static str], &'static [&'static str]),
    /// An empty file that says something by being there.
    Create(&'static str),
    FsUuids,
    LvmUuids,
    MachineId,
    RandomSeed,
    Users,
}

use Action::{Create, Empty, EmptyLogs, Remove, RemoveFiles, RemoveLines};

const fn usual(name: &'static str, what: &'static str, actions: &'static [Action]) -> Operation {
    Operation {
        name,
        what,
        is_default: true,
        actions,
    }
}

const fn on_demand(
    name: &'static str,
    what: &'static str,
    actions: &'static [Action],
) -> Operation {
    Operation {
        is_default: false,
        ..usual(name, what, actions)
    }
}

/// Who was logged in: utmp(5).
const LOGINS: [&str; 4] = [
    "/var/log/wtmp",
    "/var/log/btmp",
    "/var/log/lastlog",
    "/var/run/utmp",
];

/// Settings of network cards: of Red Hat, of SUSE.
const IFCFG: [&str; 2] = [
    "/etc/sysconfig/network-scripts/ifcfg-*",
    "/etc/sysconfig/network/ifcfg-*",
];

/// All of them, by name.
pub const OPERATIONS: &[Operation] = &[
    usual(
        "abrt-data",
        "crashes that ABRT has kept",
        &[Remove(&["/var/spool/abrt/*"])],
    ),
    usual(
        "backup-files",
        "editors' backups (*~, *.bak) below /etc, /root, /srv, /tmp, /var",
        &[Action::Backups(&["/etc", "/root", "/srv", "/tmp", "/var"])],
    ),
    usual(
        "bash-history",
        "histories of shells",
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
        "blkid's cache",
        &[Remove(&[
            "/var/run/blkid.tab*",
            "/var/lib/blkid.tab*",
            "/etc/blkid/blkid.tab*",
            "/etc/blkid.tab*",
        ])],
    ),
    on_demand(
        "ca-certificates",
        "the guest's own authority and its keys",
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
        "the instance that cloud-init knows",
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
        "kernel crash dumps",
        &[Remove(&["/var/crash/*", "/var/log/dump/*"])],
    ),
    usual(
        "cron-spool",
        "users' cron and at jobs",
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
        "leases of DHCP clients",
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
        "leases of a DHCP server",
        &[Remove(&[
            "/var/lib/dhcpd/*",
            "/var/lib/misc/dnsmasq.leases",
        ])],
    ),
    usual(
        "dovecot-data",
        "dovecot's state",
        &[Remove(&["/var/lib/dovecot/*"])],
    ),
    on_demand(
        "firewall-rules",
        "rules of firewalls",
        &[Remove(&[
            "/etc/sysconfig/iptables",
            "/etc/firewalld/services/*",
            "/etc/firewalld/zones/*",
        ])],
    ),
    on_demand(
        "flag-reconfiguration",
        "asks old guests of Red Hat to set themselves up anew",
        &[Create("/.unconfigured")],
    ),
    on_demand(
        "fs-uuids",
        "UUIDs of the guest's ext2, ext3 and ext4, in whose place come others",
        &[Action::FsUuids],
    ),
    usual(
        "ipa-client",
        "enrolment at IPA",
        &[Remove(&[
            "/etc/ipa/ca.crt",
            "/etc/ipa/default.conf",
            "/var/lib/ipa-client/sysrestore/*",
            "/var/lib/ipa-client/pki/*",
        ])],
    ),
    on_demand(
        "kerberos-data",
        "databases of a Kerberos server",
        &[Remove(&["/var/kerberos/krb5kdc/*"])],
    ),
    usual(
        "kerberos-hostkeytab",
        "the host's Kerberos keys",
        &[Remove(&["/etc/krb5.keytab"])],
    ),
    usual(
        "logfiles",
        "logs",
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
        "the devices that LVM knows",
        &[Remove(&["/etc/lvm/devices/system.devices"])],
    ),
    usual(
        "lvm-uuids",
        "UUIDs of LVM's volume groups and physical volumes, in whose place come others",
        &[Action::LvmUuids],
    ),
    usual("machine-id", "the machine ID", &[Action::MachineId]),
    usual(
        "mail-spool",
        "mail",
        &[Remove(&["/var/spool/mail/*", "/var/mail/*"])],
    ),
    usual(
        "net-hostname",
        "the host's name in settings of network cards",
        &[RemoveLines(&IFCFG, &["HOSTNAME", "DHCP_HOSTNAME"])],
    ),
    usual(
        "net-hwaddr",
        "hardware addresses in settings of network cards",
        &[RemoveLines(&IFCFG, &["HWADDR"])],
    ),
    usual(
        "net-nmconn",
        "connections of NetworkManager",
        &[Remove(&["/etc/NetworkManager/system-connections/*"])],
    ),
    usual(
        "pacct-log",
        "accounting of processes",
        &[Empty(&["/var/account/pacct*", "/var/log/account/pacct*"])],
    ),
    usual(
        "package-manager-cache",
        "what package managers have kept",
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
        "what PAM has kept",
        &[Remove(&[
            "/var/run/console/*",
            "/var/run/faillock/*",
            "/var/run/sepermit/*",
            "/var/lib/faillock/*",
        ])],
    ),
    usual(
        "passwd-backups",
        "backups of users and groups",
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
        "puppet's state and logs",
        &[Remove(&[
            "/var/log/puppet/*",
            "/var/lib/puppet/*/*",
            "/var/lib/puppet/*",
        ])],
    ),
    usual(
        "random-seed",
        "the random seed, in whose place comes another",
        &[Action::RandomSeed],
    ),
    usual(
        "rh-subscription-manager",
        "subscriptions of Red Hat",
        &[Remove(&[
            "/etc/pki/consumer/*",
            "/etc/pki/entitlement/*",
            "/var/lib/rhsm/*",
        ])],
    ),
    usual(
        "rhn-systemid",
        "the ID of the Red Hat Network",
        &[Remove(&[
            "/etc/sysconfig/rhn/systemid",
            "/etc/sysconfig/rhn/osad-auth.conf",
        ])],
    ),
    usual(
        "rpm-db",
        "rpm's own locks and caches",
        &[Remove(&["/var/lib/rpm/__db.*"])],
    ),
    usual(
        "samba-db-log",
        "samba's databases and logs",
        &[Remove(&[
            "/var/log/samba/old/*",
            "/var/log/samba/*",
            "/var/lib/samba/*/*.tdb",
            "/var/lib/samba/*.tdb",
        ])],
    ),
    usual(
        "smolt-uuid",
        "smolt's UUID",
        &[Remove(&[
            "/etc/sysconfig/hw-uuid",
            "/etc/smolt/uuid",
            "/etc/smolt/hw-uuid",
        ])],
    ),
    usual(
        "ssh-hostkeys",
        "the host's SSH keys",
        &[Remove(&[
            "/etc/ssh/*_host_*",
            "/etc/dropbear/dropbear_*_host_key",
        ])],
    ),
    usual(
        "ssh-userdir",
        "users' .ssh directories",
        &[Remove(&["/root/.ssh", "/home/*/.ssh"])],
    ),
    usual(
        "sssd-db-log",
        "sssd's databases and logs",
        &[Remove(&["/var/log/sssd/*", "/var/lib/sss/db/*"])],
    ),
    usual(
        "tmp-files",
        "temporary files",
        &[Remove(&[
            "/tmp/*",
            "/tmp/.[!.]*",
            "/var/tmp/*",
            "/var/tmp/.[!.]*",
        ])],
    ),
    usual(
        "udev-persistent-net",
        "names of network cards",
        &[Remove(&[
            "/etc/udev/rules.d/70-persistent-net.rules",
            "/etc/udev/rules.d/75-persistent-net-generator.rules",
        ])],
    ),
    on_demand(
        "user-account",
        "people's accounts and homes",
        &[Action::Users],
    ),
    usual("utmp", "who was logged in", &[Empty(&LOGINS)]),
    usual("yum-uuid", "yum's UUID", &[Remove(&["/var/lib/yum/uuid"])]),
    usual(
        "zsh-history",
        "histories of zsh",
        &[Remove(&["/root/.zsh_history", "/home/*/.zsh_history"])],
    ),
];

impl Operation {
    /// Applies it; with `is_named` it was asked for by its own name.
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
            guest.note(format!("{dir} has too many files: not all were looked at"));
        }
    }
    Ok(())
}

/// The text without the lines that set a variable.
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

/// Regular files alone, and not behind symlinks.
pub(super) fn files(guest: &Guest, patterns: &[&str]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for path in expanded(guest, patterns)? {
        let entry = guest.stage.link_entry(&path)?;
        if entry.is_some_and(|entry| matches!(entry.kind, Kind::File(_))) {
            files.push(path);
        }
    }
    Ok(files)
}
