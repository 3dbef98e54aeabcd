//! Random changes to a filesystem.

mod known;

use diskfs_block::BlockRead;
use diskfs_vfs::{
    Device, Fallocate, FileFlags, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode,
    SetMetadata, SetTime, SetXattr, SyncFile, Timestamp,
};

use crate::random::Random;
use known::{Known, any_name};

/// The maximum number of bytes that a run may write.
pub(crate) const CHANGED_MAX_BYTES: u64 = 16 << 20;

/// The maximum number of changes between opening and closing.
const MAX_CHANGES: u64 = 24;

/// Returns the random numbers for an image's changes, whose seed is in eight bytes at `offset`.
pub(crate) fn chance(device: &dyn BlockRead, offset: u64) -> Random {
    let mut bytes = [0; 8];
    // An image that is too short has no filesystem.
    let _ = device.read_at(offset, &mut bytes);
    Random::of_case(u64::from_le_bytes(bytes), 0)
}

/// Makes some random changes.
pub(crate) fn some(fs: &dyn FsWrite, random: &mut Random) {
    let mut known = Known::of(fs);
    for _ in 0..random.below(MAX_CHANGES) {
        any(fs, &mut known, random);
    }
    let _ = fs.statistics();
}

/// Makes a random change, and reads the file that it changed.
fn any(fs: &dyn FsWrite, known: &mut Known, random: &mut Random) {
    match random.below(32) {
        0..6 => create(fs, known, random),
        6 => create_unnamed(fs, known, random),
        7 | 8 => take_away(fs, known, random),
        9 | 10 => rename(fs, known, random),
        11 => link(fs, known, random),
        12..18 => write(fs, known.file(random), random),
        18 | 19 => {
            let inode = known.file(random);
            let _ = fs.set_len(inode, offset(fs, inode, random));
        }
        20..23 => fallocate(fs, known.file(random), random),
        23..26 => attribute(fs, known, random),
        26 | 27 => set_metadata(fs, known, random),
        28 => sync_one(fs, known, random),
        29 => drop(fs.sync()),
        _ => read_back(fs, known, random),
    }
}

fn create(fs: &dyn FsWrite, known: &mut Known, random: &mut Random) {
    let target = [b't'; 4095];
    let len = *random.pick(&[1, 59, 60, 300, 1023, 4095]);
    let device = Device {
        major: u32::try_from(random.below(5000)).unwrap_or(0),
        minor: 1,
    };
    let kind = match random.below(12) {
        0..6 => NewKind::Regular,
        6..9 => NewKind::Directory,
        9 | 10 => NewKind::Symlink(&target[..len]),
        _ => NewKind::BlockDevice(device),
    };
    let (directory, name) = (known.directory(random), any_name(random));
    let attributes = NewAttributes::for_root(0o2755);
    if let Ok(inode) = fs.create(directory, &name, kind, &attributes) {
        known.add(directory, name, inode, kind == NewKind::Directory);
    }
}

fn create_unnamed(fs: &dyn FsWrite, known: &mut Known, random: &mut Random) {
    let directory = known.directory(random);
    let Ok(inode) = fs.create_unnamed(directory, &NewAttributes::for_root(0o644)) else {
        return;
    };
    write(fs, inode, random);
    if random.below(2) == 0 {
        let _ = fs.link(inode, directory, &any_name(random));
    }
    // Otherwise the file stays open until the filesystem is closed.
    if random.below(2) == 0 {
        let _ = fs.release(inode);
    }
}

fn take_away(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let (directory, name) = known.name(random);
    if random.below(3) == 0 {
        fs.hold(known.file(random));
    }
    if fs.unlink(directory, &name).is_err() {
        let _ = fs.rmdir(directory, &name);
    }
}

fn rename(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let (directory, name) = known.name(random);
    let (to, to_name) = match random.below(2) {
        0 => known.name(random),
        _ => (known.directory(random), any_name(random)),
    };
    let mode = *random.pick(&[
        RenameMode::Replace,
        RenameMode::Replace,
        RenameMode::NoReplace,
        RenameMode::Exchange,
        RenameMode::Whiteout,
        RenameMode::NoReplaceWhiteout,
    ]);
    let _ = fs.rename(directory, &name, to, &to_name, mode);
}

fn link(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let inode = known.file(random);
    let _ = fs.link(inode, known.directory(random), &any_name(random));
}

fn write(fs: &dyn FsWrite, inode: InodeNumber, random: &mut Random) {
    let bytes = vec![0x5a; len(random)];
    let _ = fs.write_at(inode, offset(fs, inode, random), &bytes);
}

fn fallocate(fs: &dyn FsWrite, inode: InodeNumber, random: &mut Random) {
    let what = *random.pick(&[
        Fallocate::Allocate,
        Fallocate::AllocateKeepSize,
        Fallocate::PunchHole,
        Fallocate::PunchHole,
        Fallocate::ZeroRange,
        Fallocate::ZeroRangeKeepSize,
        Fallocate::CollapseRange,
        Fallocate::InsertRange,
    ]);
    let whole = *random.pick(&[1, 1024, 4096, 65_536]);
    let at = offset(fs, inode, random) / whole * whole;
    let len = match random.below(8) {
        0 => u64::MAX - at,
        1..4 => 1 << random.below(44),
        _ => random.below(100_000) / whole * whole,
    };
    let _ = fs.fallocate(inode, at, len, what);
}

fn attribute(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let inode = either(known, random);
    let names = fs.list_xattrs(inode).unwrap_or_default();
    let name: Vec<u8> = match random.below(4) {
        0 | 1 if !names.is_empty() => random.pick(&names).clone(),
        2 => b"system.posix_acl_access".to_vec(),
        _ => format!("user.{}", random.below(5)).into_bytes(),
    };
    if random.below(4) == 0 {
        let _ = fs.remove_xattr(inode, &name);
        return;
    }
    let len = *random.pick(&[0, 10, 100, 900, 3000, 5000, 65_536]);
    let value = if name.starts_with(b"system.") {
        ACL.concat()
    } else {
        vec![b'v'; len]
    };
    let how = *random.pick(&[SetXattr::Any, SetXattr::Create, SetXattr::Replace]);
    let _ = fs.set_xattr(inode, &name, &value, how);
}

/// An ACL of version 2: owner, user 1000, group, mask, others. Each entry has tag, permissions and
/// ID, as in `linux/posix_acl_xattr.h`.
const ACL: [&[u8]; 6] = [
    &[2, 0, 0, 0],
    &[0x01, 0, 7, 0, 0xff, 0xff, 0xff, 0xff],
    &[0x02, 0, 6, 0, 0xe8, 0x03, 0, 0],
    &[0x04, 0, 5, 0, 0xff, 0xff, 0xff, 0xff],
    &[0x10, 0, 7, 0, 0xff, 0xff, 0xff, 0xff],
    &[0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
];

fn set_metadata(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let flags = FileFlags {
        immutable: random.below(2) == 0,
        ..FileFlags::default()
    };
    let far = Timestamp {
        seconds: 1 << random.below(40),
        nanoseconds: 999_999_999,
    };
    let change = SetMetadata {
        permissions: Some(0o4711),
        uid: Some(u32::MAX - 1),
        accessed: Some(SetTime::At(far)),
        modified: Some(SetTime::Now),
        flags: (random.below(8) == 0).then_some(flags),
        ..SetMetadata::default()
    };
    let _ = fs.set_metadata(either(known, random), &change);
}

fn sync_one(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let what = *random.pick(&[SyncFile::Data, SyncFile::All]);
    let _ = fs.sync_file(either(known, random), what);
}

fn read_back(fs: &dyn FsWrite, known: &Known, random: &mut Random) {
    let inode = known.file(random);
    let _ = fs.read_at(inode, offset(fs, inode, random), &mut vec![0; len(random)]);
    let _ = fs.read_link(inode);
    let (directory, name) = known.name(random);
    let _ = fs.lookup(directory, &name);
    if let Ok(entries) = fs.read_dir(directory, 0) {
        let _ = entries.take(40).count();
    }
}

fn either(known: &Known, random: &mut Random) -> InodeNumber {
    match random.below(3) {
        0 => known.directory(random),
        _ => known.file(random),
    }
}

/// Returns an offset in a file, at its end, after it, or beyond any valid one.
fn offset(fs: &dyn FsWrite, inode: InodeNumber, random: &mut Random) -> u64 {
    let size = fs.metadata(inode).map_or(0, |metadata| metadata.size_bytes);
    match random.below(12) {
        0 => 0,
        1..4 => random.below(size),
        4..6 => size,
        6..8 => size.saturating_sub(random.below(9000)),
        8..10 => random.below(200_000),
        10 => 1 << random.below(64),
        _ => u64::MAX - random.below(9000),
    }
}

fn len(random: &mut Random) -> usize {
    let bits = random.below(18);
    usize::try_from(random.below(2 << bits)).unwrap_or(0)
}
