//! Systems that ostree deploys: the root is a directory, `/ostree/deploy/OS/deploy/COMMIT.N`.

use super::entry::{MountEntry, Origin};
use super::sub_root::SubRoot;
use crate::Filesystem;

/// Returns the deployment on a filesystem that boots by default, if there is one, with its `/var`
/// and with the whole filesystem at `/sysroot`. Of several deployments, the one whose link changed
/// last is assumed to be the first entry of the boot loader.
pub(super) fn find(filesystem: &Filesystem) -> Option<SubRoot> {
    let mut links: Vec<Vec<u8>> = ["/ostree/boot.0", "/ostree/boot.1"]
        .iter()
        .flat_map(|boot| links(filesystem, boot.as_bytes()))
        .collect();
    links.sort_by_cached_key(|link| {
        let changed = filesystem.symlink_metadata(link).map(|found| found.changed);
        changed.unwrap_or_default()
    });
    let link = links.pop()?;
    let target = String::from_utf8(filesystem.read_link(&link).ok()?).ok()?;
    // The target is `../../../deploy/OS/deploy/COMMIT.N`, relative to
    // `/ostree/boot.V/OS/CHECKSUM/N`.
    let names: Vec<&str> = target.split('/').filter(|name| *name != "..").collect();
    let ["deploy", os, "deploy", commit] = names.as_slice() else {
        return None;
    };
    let root = format!("/ostree/deploy/{os}/deploy/{commit}");
    let is_there = filesystem.exists(format!("{root}/usr")).unwrap_or(false);
    is_there.then(|| SubRoot {
        root: root.into_bytes(),
        entries: vec![bind(&format!("/sysroot/ostree/deploy/{os}/var"), "/var")],
        whole_at: Some("sysroot"),
    })
}

/// Returns the links `N` below `boot.V/OS/CHECKSUM/`.
fn links(filesystem: &Filesystem, boot: &[u8]) -> Vec<Vec<u8>> {
    let below = |dirs: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        dirs.iter()
            .flat_map(|dir| {
                let entries = filesystem.read_dir(dir).unwrap_or_default();
                let names = entries.into_iter().map(|entry| entry.name);
                let paths = names.map(|name| [dir, name.as_slice()].join(&b'/'));
                paths.collect::<Vec<_>>()
            })
            .collect()
    };
    below(below(below(vec![boot.to_vec()])))
}

fn bind(from: &str, to: &str) -> MountEntry {
    MountEntry {
        what: from.to_owned(),
        at: to.as_bytes().to_vec(),
        kind: "none".to_owned(),
        options: vec!["bind".to_owned()],
        origin: Origin::Ostree,
    }
}
