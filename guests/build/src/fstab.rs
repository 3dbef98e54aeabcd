//! `/etc/fstab` and `/etc/crypttab` of the image.

use crate::plan::FilesystemKind;
use crate::slot::{Contents, FilesystemSlot, Slot};

/// Returns the text of `/etc/fstab`: the root first, each filesystem before those below it, and
/// swap areas last.
pub(crate) fn fstab(slots: &[Slot]) -> String {
    let all: Vec<&Slot> = slots.iter().flat_map(Slot::all).collect();
    let mut filesystems: Vec<&FilesystemSlot> =
        all.iter().filter_map(|slot| slot.filesystem()).collect();
    filesystems.retain(|found| found.mount.is_some() || found.plan.kind == FilesystemKind::Swap);
    filesystems.sort_by_key(|found| (found.mount.is_none(), found.mount.clone()));
    let mut text = "# <file system> <mount point> <type> <options> <dump> <pass>\n".to_owned();
    for filesystem in filesystems {
        text.push_str(&line(filesystem));
        text.push('\n');
    }
    text
}

fn line(filesystem: &FilesystemSlot) -> String {
    let kind = filesystem.plan.kind;
    let (mount, pass) = match (filesystem.mount.as_deref(), kind) {
        (None, _) => ("none".to_owned(), 0),
        (Some(path), FilesystemKind::Xfs | FilesystemKind::Btrfs) => (escaped(path), 0),
        (Some(""), _) => ("/".to_owned(), 1),
        (Some(path), _) => (escaped(path), 2),
    };
    let default = match kind {
        FilesystemKind::Swap => "sw",
        FilesystemKind::Fat | FilesystemKind::Exfat => "umask=0077",
        _ => "defaults",
    };
    let options = filesystem.plan.options.as_deref().unwrap_or(default);
    let (uuid, kind) = (filesystem.uuid_text(), kind.name());
    format!("UUID={uuid} {mount} {kind} {options} 0 {pass}")
}

/// Returns a mount point as fstab(5) writes it.
fn escaped(path: &str) -> String {
    let path = path.replace('\\', "\\134").replace(' ', "\\040");
    format!("/{path}")
}

/// Returns the text of `/etc/crypttab`; `None` without encrypted volumes.
pub(crate) fn crypttab(slots: &[Slot]) -> Option<String> {
    let all = slots.iter().flat_map(Slot::all);
    let lines = all.filter_map(|slot| match &slot.contents {
        Contents::Luks(luks) => Some(format!("{} UUID={} none luks\n", luks.plan.name, luks.uuid)),
        _ => None,
    });
    let text: String = lines.collect();
    (!text.is_empty()).then_some(text)
}
