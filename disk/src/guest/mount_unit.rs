//! Enabled mount units of systemd, in the format of systemd.mount(5).

use super::entry::{MountEntry, Origin, options};
use crate::Filesystem;

/// The directory of the administrator's units. The distribution's own units mount filesystems
/// without a device.
const UNITS: &str = "/etc/systemd/system";
const MAX_BYTES: u64 = 64 << 10;

/// Returns the mount units that another unit wants or requires, below the directory `root`.
pub(super) fn read(filesystem: &Filesystem, root: &[u8]) -> Vec<MountEntry> {
    let units = [root, UNITS.as_bytes()].concat();
    let mut found: Vec<MountEntry> = Vec::new();
    for wanting in names(filesystem, &units) {
        if !wanting.ends_with(b".wants") && !wanting.ends_with(b".requires") {
            continue;
        }
        let wanted = names(
            filesystem,
            &[&units, &wanting].map(|part| &part[..]).join(&b'/'),
        );
        for name in wanted.iter().filter_map(|name| unit(name)) {
            let path = [UNITS.as_bytes(), name.as_slice()].join(&b'/');
            let Ok(text) = filesystem.read_at_most([root, &path].concat(), MAX_BYTES) else {
                continue;
            };
            let origin = String::from_utf8_lossy(&path).into_owned();
            let entry = parse(&text, origin);
            let new = entry.filter(|entry| found.iter().all(|known| known.at != entry.at));
            found.extend(new);
        }
    }
    found
}

/// Returns the names in a directory, sorted; an empty list if it can't be read.
fn names(filesystem: &Filesystem, dir: &[u8]) -> Vec<Vec<u8>> {
    let entries = filesystem.read_dir(dir).unwrap_or_default();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

/// Returns the file name of the mount unit; an automount unit has a mount unit of the same name.
fn unit(name: &[u8]) -> Option<Vec<u8>> {
    if name.ends_with(b".mount") {
        return Some(name.to_vec());
    }
    let stem = name.strip_suffix(b".automount")?;
    Some([stem, b".mount"].concat())
}

fn parse(text: &[u8], path: String) -> Option<MountEntry> {
    let text = String::from_utf8_lossy(text);
    let (mut what, mut at, mut kind, mut words) = (None, None, None, Vec::new());
    let mut in_mount = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            in_mount = line == "[Mount]";
        }
        let Some((name, value)) = line.split_once('=').filter(|_| in_mount) else {
            continue;
        };
        // `%%` is the only specifier that is expanded: others depend on the running system.
        let value = value.trim().replace("%%", "%");
        match name.trim() {
            "What" => what = Some(value),
            "Where" => at = Some(value),
            "Type" => kind = Some(value),
            "Options" => words.extend(options(&value)),
            _ => {}
        }
    }
    Some(MountEntry {
        what: what?,
        at: at?.into_bytes(),
        kind: kind.unwrap_or_else(|| "auto".to_owned()),
        options: words,
        origin: Origin::Unit(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_section_counts() {
        let text = b"[Unit]\nWhat=no\n# c\n[Mount]\nWhat = /dev/disk/by-label/a\nWhere=/srv/a%%\nOptions=ro,noexec\n\
            [Install]\nWhere=/no\n";
        let entry = parse(text, "x".to_owned()).unwrap();
        assert_eq!(entry.what, "/dev/disk/by-label/a");
        assert_eq!(entry.at, b"/srv/a%");
        assert_eq!(entry.kind, "auto");
        assert_eq!(entry.options, ["ro", "noexec"]);
        assert_eq!(parse(b"[Mount]\nWhere=/x\n", String::new()), None);
        assert_eq!(unit(b"a.automount").unwrap(), b"a.mount");
        assert_eq!(unit(b"a.service"), None);
    }
}
