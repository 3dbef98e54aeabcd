//! Helpers for tests of this crate and of others.

use diskfs_vfs::{FsRead, FsWrite, NewAttributes, NewKind, RenameMode, SetMetadata, SetXattr};

use crate::client::{Client, MountRequest};

/// Sends every kind of request, and ignores the answers.
pub fn ask_everything(client: &Client) {
    let Ok(fs) = client.mount(&MountRequest::new("vda", "memory")) else {
        return;
    };
    let plain = NewAttributes::for_root(0o644);
    let root = fs.root();
    for round in 0..3_u8 {
        let name = [b'f', b'0'.saturating_add(round)];
        let made = fs.create(root, &name, NewKind::Regular, &plain);
        let f = made.unwrap_or(root);
        let _ = fs.create(root, b"d", NewKind::Directory, &plain);
        let _ = fs.create(root, b"l", NewKind::Symlink(b"target"), &plain);
        fs.hold(f);
        let _ = fs.write_at(f, 5000, &[round; 3000]);
        let _ = fs.read_at(f, 0, &mut [0; 9000]);
        let _ = fs.write_at(f, 100, &vec![round; 40_000]);
        let _ = fs.read_at(f, 0, &mut vec![0; 50_000]);
        let _ = fs.set_xattr(f, b"user.x", b"value", SetXattr::Any);
        let _ = (fs.xattr(f, b"user.x"), fs.list_xattrs(f), fs.statistics());
        let _ = fs.set_metadata(
            f,
            &SetMetadata {
                uid: Some(1),
                ..SetMetadata::default()
            },
        );
        let _ = fs.extents_of(f, 0).map(|extents| extents.take(100).count());
        let _ = fs.read_dir(root, 0).map(|entries| {
            let entries = entries.take(100).flatten();
            entries
                .filter(|entry| fs.metadata(entry.inode).is_ok())
                .count()
        });
        fs.will_need(f, 0, 100);
        let _ = fs.read_at(f, 0, &mut [0; 100]);
        let _ = fs.lookup(root, b"l").and_then(|l| fs.read_link(l));
        let _ = fs.link(f, root, b"second");
        let _ = fs.rename(root, b"second", root, &name, RenameMode::Exchange);
        let _ = fs.unlink(root, b"second");
        let _ = fs.unlink(root, &name);
        let _ = fs.metadata(f);
        let _ = fs.release(f);
        let _ = fs.sync();
    }
}
