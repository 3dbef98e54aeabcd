//! Resolution of device names of a guest to volumes.

use diskfs_etc::crypttab;

use crate::{Disk, Volume};

/// The limit on the depth at which device names refer to other device names.
const MAX_DEPTH: usize = 8;

/// Directories of symlinks that udev creates, and the tag that each stands for.
const LINKS: [(&str, &str); 4] = [
    ("/dev/disk/by-uuid/", "UUID"),
    ("/dev/disk/by-label/", "LABEL"),
    ("/dev/disk/by-partuuid/", "PARTUUID"),
    ("/dev/disk/by-partlabel/", "PARTLABEL"),
];

/// The machine's volumes, by the names that the guest gives them.
#[derive(Debug)]
pub(super) struct Devices<'d> {
    pub(super) disk: &'d Disk,
    pub(super) crypttab: Vec<crypttab::Entry>,
}

/// A volume, or the reason why it was not found.
type FoundVolume = Result<Volume, String>;

impl Devices<'_> {
    /// Returns the volume that `name` refers to: `UUID=...`, `/dev/sda1`, `/dev/mapper/vg0-root`,
    /// ...
    pub(super) fn find(&self, name: &str) -> FoundVolume {
        self.find_at(name, 0)
    }

    fn find_at(&self, name: &str, depth: usize) -> FoundVolume {
        if let Some((tag, value)) = name.split_once('=') {
            return self.volume_named(&format!("{tag}={}", value.trim_matches('"')));
        }
        for (directory, tag) in LINKS {
            if let Some(value) = name.strip_prefix(directory) {
                return self.volume_named(&format!("{tag}={}", unescape(value)));
            }
        }
        if !name.starts_with("/dev/") {
            return Err(format!("`{}` is not a disk device", name.escape_debug()));
        }
        if let Some(found) = self.volumes()?.find(|volume| volume.is_node(name)) {
            return Ok(found.clone());
        }
        if let Some(mapped) = name.strip_prefix("/dev/mapper/") {
            return self.unlocked(mapped, depth);
        }
        if let Some((disk, partition)) = position(name) {
            return self.at(disk, partition, name);
        }
        Err(format!(
            "no such device: `{}`; add the image that has it",
            name.escape_debug()
        ))
    }

    /// Returns all volumes that are not members of others.
    fn volumes(&self) -> Result<impl Iterator<Item = &Volume>, String> {
        let volumes = self.disk.volumes().map_err(|error| error.to_string())?;
        let is_whole = |volume: &&Volume| !self.disk.is_member(volume).unwrap_or(false);
        Ok(volumes.iter().filter(is_whole))
    }

    fn volume_named(&self, name: &str) -> FoundVolume {
        let has_name = |volume: &&Volume| volume.has_name(name).unwrap_or(false);
        let found: Vec<&Volume> = self.volumes()?.filter(has_name).collect();
        match found.as_slice() {
            [] => Err(format!("no such volume: {name}; add the image that has it")),
            [one] => Ok((*one).clone()),
            several => {
                let names: Vec<&str> = several.iter().map(|volume| volume.name()).collect();
                Err(format!(
                    "several volumes match {name}: {}",
                    names.join(", ")
                ))
            }
        }
    }

    /// Returns the decrypted inside of the encrypted volume that the guest opens under that name.
    fn unlocked(&self, mapped: &str, depth: usize) -> FoundVolume {
        let entry = self.crypttab.iter().find(|entry| entry.name == mapped);
        let device = match (entry, mapped.strip_prefix("luks-")) {
            (Some(entry), _) => entry.device.clone(),
            (None, Some(uuid)) => format!("UUID={uuid}"),
            (None, None) => {
                return Err(format!("no such device: /dev/mapper/{mapped}"));
            }
        };
        if depth >= MAX_DEPTH {
            return Err(format!(
                "invalid /etc/crypttab: /dev/mapper/{mapped} is inside itself"
            ));
        }
        let outer = self.find_at(&device, depth.saturating_add(1))?;
        let inside = format!("{}/luks", outer.name());
        let found = self.volumes()?.find(|volume| volume.name() == inside);
        let outer = outer.name();
        let locked = || format!("{outer} is encrypted and no key opens it; use --key {outer}:ask");
        found.cloned().ok_or_else(locked)
    }

    /// Returns a partition by its number, or a whole disk, of the machine's disk with that index
    /// from 0.
    fn at(&self, disk: usize, partition: Option<u32>, name: &str) -> FoundVolume {
        let is_meant = |volume: &&Volume| {
            let number = volume.entry().map(|entry| entry.number);
            volume.disk_index() == Some(disk) && number == partition
        };
        let found = self.volumes()?.find(is_meant);
        let none = || format!("no such device: {name}; add the image that has it");
        found.cloned().ok_or_else(none)
    }
}

/// Parses a device name by position: the index of the disk, from 0, and the number of the
/// partition: `/dev/sdb3`, `/dev/nvme1n1p3`. Disks count in the order in which they were given,
/// whatever the bus.
fn position(name: &str) -> Option<(usize, Option<u32>)> {
    let node = name.strip_prefix("/dev/")?;
    let partition = |digits: &str| match digits {
        "" => Some(None),
        digits => digits.parse().ok().map(Some),
    };
    for bus in ["sd", "vd", "xvd", "hd", "ubd"] {
        let Some(rest) = node.strip_prefix(bus) else {
            continue;
        };
        let end = rest.find(|c: char| !c.is_ascii_lowercase());
        let (letters, digits) = rest.split_at(end.unwrap_or(rest.len()));
        return Some((letters_number(letters)?, partition(digits)?));
    }
    for (bus, unit) in [("nvme", "n1"), ("mmcblk", "")] {
        let Some(rest) = node.strip_prefix(bus) else {
            continue;
        };
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let (number, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let digits = match rest.strip_prefix(unit)? {
            "" => "",
            rest => rest.strip_prefix('p').filter(|digits| !digits.is_empty())?,
        };
        return Some((number.parse().ok()?, partition(digits)?));
    }
    None
}

/// Returns the number of a drive's letters: `a` is 0, `z` 25, `aa` 26.
fn letters_number(letters: &str) -> Option<usize> {
    let mut number: usize = 0;
    for letter in letters.bytes() {
        let digit = usize::from(letter.checked_sub(b'a')?);
        number = number.checked_mul(26)?.checked_add(digit)?.checked_add(1)?;
    }
    number.checked_sub(1)
}

/// Decodes the escapes that udev writes in a label: `\x20` is a space.
fn unescape(value: &str) -> String {
    let mut plain = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find("\\x") {
        let (before, escape) = rest.split_at(at);
        plain.extend_from_slice(before.as_bytes());
        let byte = escape
            .get(2..4)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = byte {
            plain.push(byte);
            rest = &escape[4..];
        } else {
            plain.extend_from_slice(b"\\x");
            rest = &escape[2..];
        }
    }
    plain.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_counted_by_letters_or_numbers() {
        for (name, expected) in [
            ("/dev/sda1", Some((0, Some(1)))),
            ("/dev/vdb", Some((1, None))),
            ("/dev/xvdz15", Some((25, Some(15)))),
            ("/dev/sdaa2", Some((26, Some(2)))),
            ("/dev/nvme0n1p2", Some((0, Some(2)))),
            ("/dev/nvme1n1", Some((1, None))),
            ("/dev/mmcblk0p1", Some((0, Some(1)))),
            ("/dev/mmcblk0", Some((0, None))),
            ("/dev/nvme0n1p", None),
            ("/dev/sd1", None),
            ("/dev/sda1x", None),
            ("/dev/sr0", None),
            ("/dev/sdzzzzzzzzzzzzzzzzzzzzzzzzz", None),
            ("sda1", None),
        ] {
            assert_eq!(position(name), expected, "{name}");
        }
    }

    #[test]
    fn labels_are_escaped_by_udev() {
        assert_eq!(unescape(r"my\x20data\x2fx"), "my data/x");
        assert_eq!(unescape(r"a\xzz\x"), r"a\xzz\x");
    }
}
