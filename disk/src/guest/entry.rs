//! Something that the guest mounts, whoever says so.

use std::fmt;

use diskfs_etc::{fstab, text};

use crate::CodePage;

/// What is to be mounted where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountEntry {
    /// The device as it is named there, or the directory of a bind.
    pub what: String,
    /// The directory, from the guest's root.
    pub at: Vec<u8>,
    /// The type, `auto` without one.
    pub kind: String,
    /// The options.
    pub options: Vec<String>,
    /// Who says so.
    pub origin: Origin,
}

/// Who says that something is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A line of `/etc/fstab`, counted from 1.
    Fstab(usize),
    /// A mount unit of systemd, by its file.
    Unit(String),
    /// The type of a partition: systemd-gpt-auto-generator(8).
    PartitionType,
    /// An ostree deployment.
    Ostree,
    /// The files of a filesystem that nothing names: it is a `/usr`.
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

/// Types that are no filesystem on a device.
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

/// Types that come over a network or from the host.
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

    /// Whether it shows a directory at a second place.
    pub(super) fn is_bind(&self) -> bool {
        self.has("bind") || self.has("rbind")
    }

    /// Whether it is memory, and no part of the tree.
    pub(super) fn is_swap(&self) -> bool {
        self.kind == "swap" || self.at == b"none" || self.at == b"swap"
    }

    /// The directory of the device's filesystem that is mounted in the place of its root.
    pub(super) fn subvolume(&self) -> Option<&str> {
        let mut options = self.options.iter();
        options.find_map(|option| option.strip_prefix("subvol="))
    }

    /// The number of that directory's subvolume, where the guest gives that.
    pub(super) fn subvolume_id(&self) -> Option<u64> {
        let mut options = self.options.iter();
        let id = options.find_map(|option| option.strip_prefix("subvolid="))?;
        id.parse().ok()
    }

    /// The code page of short names, on FAT.
    pub(super) fn code_page(&self) -> Option<CodePage> {
        let mut options = self.options.iter();
        let number = options.find_map(|option| option.strip_prefix("codepage="));
        CodePage::new(number?.parse().ok()?)
    }

    /// Why it is not mounted from any disk, if so.
    pub(super) fn no_device(&self) -> Option<String> {
        let kind = self.kind.as_str();
        if WITHOUT_DEVICE.contains(&kind) {
            return Some(format!("{kind} has no device"));
        }
        if FROM_ELSEWHERE.contains(&kind) || kind.starts_with("fuse.") || self.has("_netdev") {
            return Some(format!("{kind} is from outside of the machine"));
        }
        if self.has("noauto") && !self.has("x-systemd.automount") {
            return Some("noauto: mounted by hand only".to_owned());
        }
        None
    }
}

/// `a,b=c`.
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
