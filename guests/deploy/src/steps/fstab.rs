//! What the guest mounts: fstab(5), line by line.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_line;
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
        let mut text = guest.stage.text(FSTAB)?.unwrap_or_default();
        for gone in &self.remove {
            text = without(&text, gone);
        }
        for entry in &self.add {
            entry.check(guest)?;
            text = entry.put_into(&text);
            if entry.path.starts_with('/') && entry.path != "/" {
                guest.stage.make_dirs(&entry.path, 0o755)?;
            }
        }
        guest.stage.write_text(FSTAB, &text)
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

    fn is_swap(&self) -> bool {
        self.kind == "swap"
    }

    fn line(&self) -> String {
        let fields = [&self.device, &self.path, &self.kind, &self.options];
        let fields = fields.map(|field| escaped(field));
        format!("{} {} {}", fields.join(" "), self.dump, self.pass)
    }

    fn put_into(&self, text: &str) -> String {
        let new = self.line();
        let mut out = String::with_capacity(text.len());
        let mut is_done = false;
        for line in text.split_inclusive('\n') {
            let is_it = fields(line).is_some_and(|fields| {
                if self.is_swap() {
                    fields[0] == escaped(&self.device)
                } else {
                    fields[1] == escaped(&self.path)
                }
            });
            if !is_it {
                out.push_str(line);
            } else if !is_done {
                is_done = true;
                if line.split_whitespace().eq(new.split_whitespace()) {
                    out.push_str(line);
                } else {
                    out.push_str(&new);
                    out.push('\n');
                }
            }
        }
        if is_done { out } else { with_line(out, &new) }
    }
}

/// The first two fields of a line that is an entry.
fn fields(line: &str) -> Option<[&str; 2]> {
    let mut words = line.split_whitespace();
    let first = words.next().filter(|word| !word.starts_with('#'))?;
    Some([first, words.next()?])
}

fn without(text: &str, gone: &str) -> String {
    let is_it = |field: &str| match gone.strip_suffix('*') {
        Some(start) => field.starts_with(&escaped(start)),
        None => field == escaped(gone),
    };
    let lines = text.split_inclusive('\n');
    let kept =
        lines.filter(|line| !fields(line).is_some_and(|fields| fields.into_iter().any(is_it)));
    kept.collect()
}

/// Spaces as fstab(5) writes them.
fn escaped(field: &str) -> String {
    field
        .replace('\\', "\\134")
        .replace(' ', "\\040")
        .replace('\t', "\\011")
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
