//! New filesystems are filled by the kernel and by this driver.

use std::fs;
use std::path::Path;

use diskfs_block::{BlockWrite, File};
use diskfs_ext4::format;
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

use crate::common::{Mounted, e2fsck, open_for_writing};
use crate::options::parse;

const MATRIX: [&str; 9] = [
    "-t ext4",
    "-t ext2",
    "-t ext3 -b 1024",
    "-t ext4 -b 1024 -O bigalloc",
    "-t ext4 -O meta_bg,^resize_inode -b 1024 -g 1024",
    "-t ext4 -O inline_data,ea_inode,large_dir",
    "-t ext4 -E packed_meta_blocks=1 -I 512",
    "-t ext4 -O ^has_journal,sparse_super2 -E lazy_itable_init=0",
    "-t ext4 -O ^metadata_csum,uninit_bg,^flex_bg",
];

/// Creates a filesystem on a device full of old contents.
fn create(path: &Path, args: &str) {
    const BYTES: usize = 40 << 20;
    fs::write(path, vec![0xa5; BYTES]).unwrap();
    let device = File::open_read_write(path).unwrap();
    // The old contents stay where nothing is written.
    let options = parse(&format!("{args} -E nodiscard"));
    format(&device, &options).unwrap();
    device.flush().unwrap();
    e2fsck(path);
}

#[test]
fn this_driver_fills_them() {
    if !have(&["e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    for args in MATRIX {
        create(&path, args);
        let fs = open_for_writing(&path);
        let attributes = NewAttributes::for_root(0o755);
        let mut files = 0;
        'full: for n in 0.. {
            let name = format!("directory-{n}");
            let made = fs.create(fs.root(), name.as_bytes(), NewKind::Directory, &attributes);
            let Ok(dir) = made else { break };
            for n in 0..20 {
                let name = format!("file-{n}");
                let made = fs.create(dir, name.as_bytes(), NewKind::Regular, &attributes);
                let written = made.and_then(|file| fs.write_at(file, 0, &vec![n; 30_000]));
                match written {
                    Ok(_) => files += 1,
                    Err(e) if e.kind() == ErrorKind::NoSpace => break 'full,
                    Err(e) => panic!("{args}: {e}"),
                }
            }
        }
        assert!(files > 600, "{args}: {files} files");
        fs.close().unwrap();
        e2fsck(&path);
    }
}

#[test]
fn the_kernel_fills_them() {
    if !have(&["e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    for args in MATRIX {
        create(&path, args);
        let Some(mounted) = Mounted::new("the_kernel_fills_them", &path) else {
            return;
        };
        let mut files = 0;
        while fs::write(
            mounted.path().join(format!("file-{files}")),
            vec![7; 30_000],
        )
        .is_ok()
        {
            files += 1;
        }
        assert!(files > 600, "{args}: {files} files");
        drop(mounted);
        e2fsck(&path);
    }
}
