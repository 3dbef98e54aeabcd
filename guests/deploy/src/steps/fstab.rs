//! What the guest mounts: fstab(5), line by line.

use diskfs_etc::fstab;
use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use diskfs_disk::Result;

const FSTAB: &str = "/etc/fstab";

/// Changes of the table. Comments, order and spaces of all other lines stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fstab {
    /// Lines that are to be there. One for the same mount point (of swap, the same device) takes its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<FstabEntry>,
    /// Devices or mount points whose lines are not to be there; a pattern where it ends with `*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FstabEntry {
    /// What is mounted: `UUID=...`, `LABEL=...`, a device.
    pub device: String,
    /// Where: a directory, which is made with mode 0755 where it is missing; `none` for swap.
    pub path: String,
    /// The filesystem: `ext4`, `swap`, `auto`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Options.
    #[serde(default = "defaults")]
    pub options: String,
    /// Whether dump(8) takes it.
    #[serde(default)]
    pub dump: u8,
    /// When fsck(8) looks at it.
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
            return Err(guest.invalid("a field of a line of fstab is empty, or more than a line"));
        }
        let is_path = self.path.starts_with('/') || self.path == "none" || self.path == "swap";
        if !is_path {
            let reason = format!("`{}` is no mount point: it is a path, or `none`", self.path);
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
