//! A mount entry of the guest, from any source.

use std::fmt;

use diskfs_etc::{fstab, text};

use crate::CodePage;

/// A device, where the guest mounts it, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountEntry {
    /// The device as the source names it, or the source directory of a bind mount.
    pub what: String,
    /// The mount point, from the guest's root.
    pub at: Vec<u8>,
    /// The filesystem type; `auto` if the source gives none.
    pub kind: String,
    /// The mount options.
    pub options: Vec<String>,
    /// The source of the entry.
    pub origin: Origin,
}

/// The source of a mount entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The line of `/etc/fstab` with this number, from 1.
    Fstab(usize),
    /// The systemd mount unit with this file name.
    Unit(String),
    /// The type of a partition, as systemd-gpt-auto-generator(8) uses it.
    PartitionType,
    /// An ostree deployment.
    Ostree,
    /// The files of a filesystem that no source names: they are those of a `/usr`.
    Contents,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fstab(line) => write!(f, "/etc/fstab, line {line}"),
            Self::Unit(path) => f.write_str(path),
            Self::PartitionType => f.write_str("partition type"),
            Self::Ostree => f.write_str("ostree"),
            Self::Contents => f.write_str("its files"),
        }
    }
}

/// Filesystem types without a device.
const WITHOUT_DEVICE: [&str; 27] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "overlay",
    "proc",
    "procfs",
    "pstore",
    "ramfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "usbfs",
    "zram",
];

/// Filesystem types that come over a network or from the host.
const FROM_ELSEWHERE: [&str; 12] = [
    "9p",
    "afs",
    "ceph",
    "cifs",
    "coda",
    "glusterfs",
    "lustre",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
    "virtiofs",
];

impl MountEntry {
    /// Returns the entry of a line of fstab(5).
    pub(super) fn of_fstab(line: usize, entry: &fstab::Entry) -> Self {
        let shown = |field: &str| String::from_utf8_lossy(&text::encode(field)).into_owned();
        Self {
            what: shown(&entry.device),
            at: text::encode(&entry.path),
            kind: shown(&entry.kind),
            options: entry.each_option().map(shown).collect(),
            origin: Origin::Fstab(line),
        }
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|has| has == option)
    }

    /// Returns true for a bind mount.
    pub(super) fn is_bind(&self) -> bool {
        self.has("bind") || self.has("rbind")
    }

    /// Returns true for swap, which is not mounted in the tree.
    pub(super) fn is_swap(&self) -> bool {
        self.kind == "swap" || self.at == b"none" || self.at == b"swap"
    }

    /// Returns the directory of the filesystem that is mounted in place of its root.
    pub(super) fn subvolume(&self) -> Option<&str> {
        let mut options = self.options.iter();
        options.find_map(|option| option.strip_prefix("subvol="))
    }

    /// Returns the ID of the subvolume that is mounted, if the options give one.
    pub(super) fn subvolume_id(&self) -> Option<u64> {
        let mut options = self.options.iter();
        let id = options.find_map(|option| option.strip_prefix("subvolid="))?;
        id.parse().ok()
    }

    /// Returns the code page of short names on FAT, if the options give one.
    pub(super) fn code_page(&self) -> Option<CodePage> {
        let mut options = self.options.iter();
        let number = options.find_map(|option| option.strip_prefix("codepage="));
        CodePage::new(number?.parse().ok()?)
    }

    /// Returns the reason why the entry is not mounted from a disk, or `None` if it is.
    pub(super) fn no_device(&self) -> Option<String> {
        let kind = self.kind.as_str();
        if WITHOUT_DEVICE.contains(&kind) {
            return Some(format!("{kind} has no device"));
        }
        if FROM_ELSEWHERE.contains(&kind) || kind.starts_with("fuse.") || self.has("_netdev") {
            return Some(format!("{kind} is not on a disk of this machine"));
        }
        if self.has("noauto") && !self.has("x-systemd.automount") {
            return Some("noauto: mounted only on request".to_owned());
        }
        None
    }
}

/// Splits mount options: `a,b=c`.
pub(super) fn options(text: &str) -> Vec<String> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_fstab() {
        let text = text::decode(b"# c\n/a\\0 /\xf6\\040b none rbind,,x=y");
        let (line, entry) = fstab::Fstab::new(text).entries().next().unwrap();
        let entry = MountEntry::of_fstab(line, &entry);
        assert_eq!((&*entry.what, &*entry.at), ("/a\\0", &b"/\xf6 b"[..]));
        assert_eq!(entry.options, ["rbind", "x=y"]);
        assert_eq!(entry.origin, Origin::Fstab(2));
        assert!(entry.is_bind());
    }
}
