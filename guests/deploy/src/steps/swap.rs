//! The step `swap`: a swap file or an existing swap device.

use std::sync::Arc;

use diskfs_vfs::ErrorKind;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::guest::Guest;
use super::super::stage::{Contents, Entry, EntryKind, above};
use super::files::absolute;
use super::fstab::{Fstab, FstabEntry};
use diskfs_disk::FileDevice;
use diskfs_disk::{Content, ContentClass, Result, SwapOptions};

const PAGE_BYTES: u64 = 4096;

/// The mode of a swap file, which only root may read.
const MODE: u16 = 0o600;

/// Filesystems on which a swap file needs attributes that only their own tools can set.
const UNFIT: [&str; 3] = ["btrfs", "bcachefs", "zfs"];

/// A swap file, formatted as by `mkswap`, or an existing swap device, with its entry in
/// `/etc/fstab`. An existing swap file of the same size stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Swap {
    /// The path of the swap file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The size of the swap file in bytes, or with a unit of 1024, as `2G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// The label of a new swap file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The UUID of a new swap file; default: a random one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// An existing swap device instead of a file: `UUID=...`, `LABEL=...` or a device path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The mount options of the fstab entry.
    #[serde(default = "sw")]
    pub options: String,
}

fn sw() -> String {
    "sw".to_owned()
}

/// A size in bytes. In a plan, a number, or text with the suffix K, M, G or T.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "SizeText", into = "u64")]
pub struct Size(pub u64);

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum SizeText {
    Number(u64),
    Text(String),
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl TryFrom<SizeText> for Size {
    type Error = String;

    fn try_from(text: SizeText) -> std::result::Result<Self, String> {
        match text {
            SizeText::Number(bytes) => Ok(Self(bytes)),
            SizeText::Text(text) => Self::parse(&text),
        }
    }
}

impl Size {
    /// Parses digits with an optional unit: `512M`, `2GiB`.
    ///
    /// # Errors
    /// The reason, if the text is not a valid size.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let unit = unit.strip_suffix("iB").unwrap_or(unit);
        let shift = match unit {
            "" => Some(0),
            "K" | "k" => Some(10),
            "M" => Some(20),
            "G" => Some(30),
            "T" => Some(40),
            _ => None,
        };
        let bytes = digits.parse::<u64>().ok().zip(shift);
        let bytes = bytes.and_then(|(number, shift)| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| {
            format!("invalid size `{text}`: expected bytes, or a number with a unit, as in 2G")
        })
    }
}

impl Swap {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let device = match (&self.file, &self.device, self.size) {
            (Some(file), None, Some(Size(size_bytes))) => {
                let path = absolute(guest, file)?;
                self.make(guest, path, size_bytes)?;
                path
            }
            (None, Some(device), None) if self.label.is_empty() && self.uuid.is_none() => device,
            _ => {
                let reason =
                    "expected either file and size, or device without size, label and uuid";
                return Err(guest.invalid(reason));
            }
        };
        let line = FstabEntry {
            device: device.to_owned(),
            path: "none".to_owned(),
            kind: "swap".to_owned(),
            options: self.options.clone(),
            dump: 0,
            pass: 0,
        };
        Fstab {
            add: vec![line],
            remove: Vec::new(),
        }
        .apply(guest)
    }

    fn make(&self, guest: &mut Guest, path: &str, size_bytes: u64) -> Result<()> {
        let size_bytes = size_bytes / PAGE_BYTES * PAGE_BYTES;
        guest.stage.make_dirs(above(path), 0o755)?;
        let place = guest.stage.resolved(path)?;
        check_filesystem(guest, &place)?;
        let there = guest.stage.entry(path)?;
        if !is_area(guest, &place, there.as_ref(), size_bytes)? {
            let uuid = match &self.uuid {
                Some(uuid) => Uuid::parse_str(uuid)
                    .map_err(|_| guest.invalid(format!("invalid UUID `{uuid}`")))?,
                None => uuid::Builder::from_random_bytes(guest.random()?).into_uuid(),
            };
            let options = SwapOptions {
                label: self.label.clone(),
                uuid: uuid.into_bytes(),
                ..SwapOptions::default()
            };
            let page = options.first_page(size_bytes);
            let page = page.map_err(|error| guest.invalid(format!("{path}: {error}")))?;
            let start = Arc::from(page);
            guest
                .stage
                .write(path, Contents::Allocated { start, size_bytes })?;
        }
        guest.stage.set_permissions(path, MODE)?;
        guest.stage.set_owner(path, 0, 0)
    }
}

/// Returns true if a file is already a swap area of that size. A hibernated guest's swap area also
/// counts, and must not be overwritten.
fn is_area(guest: &Guest, place: &str, there: Option<&Entry>, size_bytes: u64) -> Result<bool> {
    let Some(entry) = there else {
        return Ok(false);
    };
    match &entry.kind {
        EntryKind::File(Contents::Allocated {
            size_bytes: known, ..
        }) => Ok(*known == size_bytes),
        EntryKind::File(Contents::AsBefore) if entry.size_bytes == size_bytes => {
            let content = Content::probe(&FileDevice(guest.stage.guest().open(place)?))?;
            Ok(content.is_some_and(|it| it.class == ContentClass::Swap))
        }
        _ => Ok(false),
    }
}

/// Checks that Linux can swap to a file on the filesystem.
fn check_filesystem(guest: &Guest, place: &str) -> Result<()> {
    let table = guest.stage.text("/etc/fstab")?.unwrap_or_default();
    let is_above = |dir: &str| {
        let rest = place.strip_prefix(dir.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut kind = guest.stage.guest().identity().kind;
    let mut longest = 1;
    for (_, entry) in diskfs_etc::fstab::Fstab::new(table).entries() {
        if entry.path.len() > longest && is_above(&entry.path) {
            longest = entry.path.len();
            kind = entry.kind;
        }
    }
    if !UNFIT.contains(&&*kind) {
        return Ok(());
    }
    let reason = format!(
        "swap files on {kind} are not supported: they need the attribute nodatacow (chattr +C)"
    );
    let error = guest.stage.error(ErrorKind::Unsupported, reason, place);
    Err(error.with_hint("create a swap volume (`diskfs mkfs swap`) and give it as `device`"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::Arc;

    use diskfs_fixtures::require;
    use diskfs_vfs::testing::MemoryFs;

    use super::super::super::guest::Guest;
    use super::super::testing::{after, apply, attributes, guest, text};
    use super::Size;
    use crate::{Contents, EntryKind};
    use diskfs_disk::Filesystem;

    const GUEST: &str = "-- /etc/fstab --\nUUID=1 / ext4 defaults 0 1\nUUID=2 /data btrfs defaults 0 0\n-- /data/x --\n";
    const STEP: &str = "- swap: {file: /var/swapfile, size: 1M, label: more, uuid: 01234567-89ab-cdef-0123-456789abcdef}";

    #[test]
    fn a_file_has_its_line() {
        let guest = after(GUEST, STEP);
        assert_eq!(attributes(&guest, "/var/swapfile"), "0600 0:0");
        assert!(text(&guest, "/etc/fstab").ends_with("\n/var/swapfile none swap sw 0 0\n"));
        let device = after(GUEST, "- swap: {device: UUID=9, options: \"sw,pri=5\"}");
        assert!(text(&device, "/etc/fstab").ends_with("\nUUID=9 none swap sw,pri=5 0 0\n"));
    }

    #[test]
    fn what_it_can_not_be_is_refused() {
        for step in [
            "- swap: {file: /swap}",
            "- swap: {file: /swap, size: 8K}",
            "- swap: {file: /swap, size: 1X}",
            "- swap: {file: swap, size: 1M}",
            "- swap: {file: /swap, size: 1M, label: 0123456789abcdef}",
            "- swap: {file: /swap, size: 1M, device: /dev/vdb}",
            "- swap: {device: /dev/vdb, label: x}",
        ] {
            assert!(apply(&mut guest(GUEST), step).is_err(), "{step}");
        }
        let told = apply(&mut guest(GUEST), "- swap: {file: /data/swap, size: 1M}").unwrap_err();
        assert!(told.to_string().contains("btrfs"), "{told}");
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("5", 5), ("4K", 4096), ("2M", 2 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(Size::parse(text), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "G", "1.5G", "-1", "99999999999T"] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
    }

    /// The swap area of a hibernated guest is not overwritten, whatever signature the hibernation
    /// wrote.
    #[test]
    fn an_area_stays() {
        let page = diskfs_disk::SwapOptions::default()
            .first_page(1 << 20)
            .unwrap();
        for magic in [
            b"SWAPSPACE2",
            b"S1SUSPEND\0",
            b"S2SUSPEND\0",
            b"ULSUSPEND\0",
        ] {
            let mut area = page.clone();
            area[4086..].copy_from_slice(magic);
            area.resize(1 << 20, 0);
            let mut tree = MemoryFs::of_txtar(GUEST);
            tree.dir("/var");
            tree.file("/var/swapfile", &area);
            let tree = Filesystem::new(Arc::new(tree), Path::new("guest.img"), "p1");
            let mut guest = Guest::for_tests(tree);
            apply(&mut guest, STEP).unwrap();
            let entry = guest.stage.entry("/var/swapfile").unwrap().unwrap();
            assert_eq!(entry.kind, EntryKind::File(Contents::AsBefore), "{magic:?}");
        }
    }

    #[test]
    fn blkid_takes_it() {
        if require("blkid").is_none() {
            return;
        }
        let guest = after(GUEST, STEP);
        let entry = guest.stage.entry("/var/swapfile").unwrap().unwrap();
        let EntryKind::File(Contents::Allocated { start, size_bytes }) = entry.kind else {
            panic!("{entry:?}");
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("swap");
        let file = File::create(&path).unwrap();
        file.set_len(size_bytes).unwrap();
        file.write_all_at(&start, 0).unwrap();
        let output = diskfs_fixtures::command("blkid")
            .args(["-p", "-o", "export"])
            .arg(&path)
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        for line in [
            "TYPE=swap",
            "LABEL=more",
            "UUID=01234567-89ab-cdef-0123-456789abcdef",
        ] {
            assert!(told.lines().any(|told| told == line), "{told}");
        }
        // The size in the header is the same as mkswap's.
        let theirs = dir.path().join("theirs");
        File::create(&theirs).unwrap().set_len(size_bytes).unwrap();
        let mut mkswap = diskfs_fixtures::command("mkswap");
        mkswap.args(["-L", "more", "-U", "01234567-89ab-cdef-0123-456789abcdef"]);
        if mkswap
            .arg(&theirs)
            .output()
            .is_ok_and(|output| output.status.success())
        {
            assert_eq!(
                std::fs::read(&path).unwrap(),
                std::fs::read(&theirs).unwrap()
            );
        }
    }
}
