//! The step `fstab`: changes fstab(5) line by line.

use diskfs_etc::fstab;
use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use diskfs_disk::Result;

const FSTAB: &str = "/etc/fstab";

/// Changes to `/etc/fstab`. Comments, order and spacing of all other lines stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fstab {
    /// Entries to add. An entry replaces an existing one with the same mount point (for swap: the
    /// same device).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<FstabEntry>,
    /// Devices or mount points whose entries are removed. A trailing `*` matches any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// An entry of `/etc/fstab`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FstabEntry {
    /// The device to mount: `UUID=...`, `LABEL=...` or a device path.
    pub device: String,
    /// The mount point, a directory that is created with mode 0755 if it is missing; `none` for
    /// swap.
    pub path: String,
    /// The filesystem type: `ext4`, `swap`, `auto`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The mount options.
    #[serde(default = "defaults")]
    pub options: String,
    /// The dump(8) frequency: 1 includes the filesystem in backups, 0 does not.
    #[serde(default)]
    pub dump: u8,
    /// The order of the check at boot by fsck(8): 1 for the root filesystem, 2 for others, 0 for no
    /// check.
    #[serde(default)]
    pub pass: u8,
}

fn defaults() -> String {
    "defaults".to_owned()
}

impl Fstab {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let mut table = fstab::Fstab::new(guest.stage.text(FSTAB)?.unwrap_or_default());
        for gone in &self.remove {
            let is_it = |field: &str| match gone.strip_suffix('*') {
                Some(start) => field.starts_with(start),
                None => field == gone,
            };
            table.remove(|entry| is_it(&entry.device) || is_it(&entry.path));
        }
        for entry in &self.add {
            entry.check(guest)?;
            table.put(&entry.entry());
            if entry.path.starts_with('/') && entry.path != "/" {
                guest.stage.make_dirs(&entry.path, 0o755)?;
            }
        }
        guest.stage.write_text(FSTAB, table.text())
    }
}

impl FstabEntry {
    fn check(&self, guest: &Guest) -> Result<()> {
        let fields = [&self.device, &self.path, &self.kind, &self.options];
        if fields
            .iter()
            .any(|field| field.is_empty() || field.contains(['\n', '\0']))
        {
            return Err(
                guest.invalid("invalid entry of fstab: a field is empty or contains a line break")
            );
        }
        let is_path = self.path.starts_with('/') || self.path == "none" || self.path == "swap";
        if !is_path {
            let reason = format!(
                "invalid mount point `{}`: expected an absolute path or `none`",
                self.path
            );
            return Err(guest.invalid(reason));
        }
        Ok(())
    }

    fn entry(&self) -> fstab::Entry {
        fstab::Entry {
            device: self.device.clone(),
            path: self.path.clone(),
            kind: self.kind.clone(),
            options: self.options.clone(),
            dump: self.dump,
            pass: self.pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, attributes, guest, text};

    const GUEST: &str = "-- /etc/fstab --\n# <file system> <mount point>\nUUID=1  /      ext4  errors=remount-ro 0 1 # root\n\
        /dev/vdb1 /data ext3 defaults 0 2\n/dev/vdc1 none swap sw 0 0\n\n#end\n";

    #[test]
    fn lines_are_put_in_place_and_others_stay() {
        let steps = "- fstab:\n    remove: [/dev/vdc*]\n    add:\n    - {device: UUID=2, path: /data, type: ext4, options: \"defaults,nofail\", pass: 2}\n\
            \x20   - {device: UUID=3, path: none, type: swap, options: sw}\n    - {device: LABEL=x, path: \"/my data\", type: xfs}";
        let guest = after(GUEST, steps);
        assert_eq!(
            text(&guest, "/etc/fstab"),
            "# <file system> <mount point>\nUUID=1  /      ext4  errors=remount-ro 0 1 # root\n\
             UUID=2 /data ext4 defaults,nofail 0 2\n\n#end\nUUID=3 none swap sw 0 0\nLABEL=x /my\\040data xfs defaults 0 0\n"
        );
        assert_eq!(attributes(&guest, "/my data"), "0755 0:0");
    }

    #[test]
    fn a_line_is_one_line() {
        for entry in [
            "{device: \"a\\nb\", path: /x, type: ext4}",
            "{device: a, path: x, type: ext4}",
            "{device: a, path: /x, type: \"\"}",
        ] {
            let step = format!("- fstab: {{add: [{entry}]}}");
            assert!(apply(&mut guest(GUEST), &step).is_err(), "{step}");
        }
    }
}
