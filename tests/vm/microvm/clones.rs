//! Clones of one image, all with the same UUID, edited at once.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use diskfs_fixtures::{Workshop, run};

use super::{appliance, at, check, command, diskfs, require_all, stderr};

/// The number of clones; `DISKFS_CLONES=100` sets another one.
const CLONES: usize = 16;
const WORKERS: usize = 8;

#[test]
fn clones_with_one_uuid_are_edited_side_by_side() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair", "qemu-img"]) else {
        return;
    };
    let said = std::env::var("DISKFS_CLONES").ok();
    let count = said.map_or(CLONES, |said| said.parse().expect("the value is a number"));
    let shop = Workshop::new().unwrap();
    let base = shop.sparse_file("base.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &base]).unwrap();
    let clones: Vec<PathBuf> = (0..count).map(|n| clone(&shop, n)).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(image) = clones.get(next.fetch_add(1, Ordering::Relaxed)) {
                    write_own_name(&appliance, image);
                }
            });
        }
    });
    for image in &clones {
        let read = diskfs(&appliance, &["cat".as_ref(), &at(image, "/name")]);
        assert_eq!(read, image.as_os_str().as_encoded_bytes());
    }
    let raw = shop.path("raw.img");
    let words = ["convert", "-O", "raw"].map(Path::new);
    run(
        "qemu-img",
        words.into_iter().chain([clones[0].as_path(), &raw]),
    )
    .unwrap();
    check("xfs_repair", &["-n"], &raw);
}

fn clone(shop: &Workshop, n: usize) -> PathBuf {
    let image = shop.path(&format!("{n}.qcow2"));
    let words = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.img"].map(Path::new);
    run("qemu-img", words.into_iter().chain([image.as_path()])).unwrap();
    image
}

fn write_own_name(appliance: &Path, image: &Path) {
    use std::io::Write as _;
    let mut child = command(
        appliance,
        ["write".as_ref(), at(image, "/name").as_os_str()],
    )
    .stdin(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let name = image.as_os_str().as_encoded_bytes();
    child.stdin.take().unwrap().write_all(name).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
