//! Helpers for tests of this crate and of others.

use diskfs_vfs::{
    Fallocate, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, SetMetadata,
    SetTime, SetXattr, SyncFile, Timestamp,
};

use crate::client::{Client, MountRequest, Remote};
use crate::protocol::{Program, TerminalSize, User};

/// Sends every kind of request but that to shut down, and ignores the answers.
pub fn ask_everything(client: &Client) {
    // A kind whose new directories the client remembers.
    let Ok(fs) = client.mount(&MountRequest::new("vda", "ext4")) else {
        return;
    };
    let _ = (fs.identity(), fs.subvolume(None));
    for round in 0..3_u8 {
        let name = [b'f', b'0'.saturating_add(round)];
        let plain = NewAttributes::for_root(0o644);
        let made = fs.create(fs.root(), &name, NewKind::Regular, &plain);
        let f = made.unwrap_or(fs.root());
        fs.hold(f);
        change_contents(&fs, f, round);
        change_metadata(&fs, f);
        change_names(&fs, f, &name);
        let _ = fs.release(f);
        let _ = fs.sync();
    }
    run_program(client, &fs);
}

fn change_contents(fs: &Remote, f: InodeNumber, round: u8) {
    let _ = fs.write_at(f, 5000, &[round; 3000]);
    let _ = fs.read_at(f, 0, &mut [0; 9000]);
    let _ = fs.write_at(f, 100, &vec![round; 40_000]);
    let _ = fs.read_at(f, 0, &mut vec![0; 50_000]);
    let _ = fs.fallocate(f, 8192, 4096, Fallocate::PunchHole);
    let _ = fs.extents_of(f, 0).map(|extents| extents.take(100).count());
    let _ = fs.set_len(f, 20_000);
    fs.will_need(f, 0, 100);
    let _ = fs.read_at(f, 0, &mut [0; 100]);
    let _ = (
        fs.sync_file(f, SyncFile::Data),
        fs.sync_file(f, SyncFile::All),
    );
}

fn change_metadata(fs: &Remote, f: InodeNumber) {
    let _ = fs.set_xattr(f, b"user.x", b"value", SetXattr::Any);
    let _ = (fs.xattr(f, b"user.x"), fs.list_xattrs(f), fs.statistics());
    let _ = (fs.remove_xattr(f, b"user.x"), fs.xattr(f, b"user.x"));
    let change = SetMetadata {
        uid: Some(1),
        modified: Some(SetTime::At(Timestamp::default())),
        accessed: Some(SetTime::Now),
        ..SetMetadata::default()
    };
    let _ = fs.set_metadata(f, &change);
}

fn change_names(fs: &Remote, f: InodeNumber, name: &[u8]) {
    let (root, plain) = (fs.root(), NewAttributes::for_root(0o755));
    if let Ok(d) = fs.create(root, b"d", NewKind::Directory, &plain) {
        let _ = (fs.lookup(d, b"none"), fs.link(f, d, b"f"));
        let _ = (fs.lookup(d, b"f"), fs.unlink(d, b"f"));
    }
    let _ = fs.create(root, b"l", NewKind::Symlink(b"target"), &plain);
    let _ = fs.lookup(root, b"l").and_then(|l| fs.read_link(l));
    let _ = fs.read_dir(root, 0).map(|entries| {
        let entries = entries.take(100).flatten();
        entries
            .filter(|entry| fs.metadata(entry.inode).is_ok())
            .count()
    });
    let _ = fs.link(f, root, b"second");
    let _ = fs.rename(root, b"second", root, name, RenameMode::Exchange);
    let _ = (fs.unlink(root, b"second"), fs.unlink(root, name));
    let unnamed = fs.create_unnamed(root, &plain);
    let _ = unnamed.map(|unnamed| fs.link(unnamed, root, b"named"));
    let _ = (fs.unlink(root, b"named"), fs.rmdir(root, b"d"));
    let _ = fs.metadata(f);
}

fn run_program(client: &Client, fs: &Remote) {
    let root = || fs.program_dir("", "");
    let _ = client.bind(root(), fs.program_dir("", "d"));
    let _ = client.connect_network();
    let size = TerminalSize {
        rows: 24,
        columns: 80,
    };
    let program = Program {
        words: vec![b"cat".to_vec()],
        environment: vec![b"A=b".to_vec()],
        directory: Vec::new(),
        user: User::default(),
        terminal: Some(size),
    };
    let Ok(running) = client.start(root(), program) else {
        return;
    };
    let _ = (running.input(b"text"), running.close_input());
    let _ = (running.resize(size), running.signal(15));
    let _ = running.wait(|_, _| Ok::<(), diskfs_vfs::Error>(()));
}
