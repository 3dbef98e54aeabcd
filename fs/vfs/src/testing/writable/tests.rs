use super::*;
use crate::{Device, FileExtentKind, FileFlags, FileType, SetTime};

const PLAIN: NewAttributes = NewAttributes::for_root(0o644);

fn file(fs: &WritableMemoryFs, name: &str) -> InodeNumber {
    fs.create(ROOT, name.as_bytes(), NewKind::Regular, &PLAIN)
        .unwrap()
}

fn dir(fs: &WritableMemoryFs, parent: InodeNumber, name: &str) -> InodeNumber {
    let attributes = NewAttributes::for_root(0o755);
    fs.create(parent, name.as_bytes(), NewKind::Directory, &attributes)
        .unwrap()
}

fn links(fs: &WritableMemoryFs, inode: InodeNumber) -> u32 {
    fs.metadata(inode).unwrap().links
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn contents(fs: &WritableMemoryFs, inode: InodeNumber) -> Vec<u8> {
    let len = fs.metadata(inode).unwrap().size_bytes;
    let mut buf = vec![0xee; usize::try_from(len).unwrap()];
    assert_eq!(fs.read_at(inode, 0, &mut buf).unwrap(), buf.len());
    buf
}

fn rename(fs: &WritableMemoryFs, from: &str, to: &str, mode: RenameMode) -> Result<()> {
    fs.rename(ROOT, from.as_bytes(), ROOT, to.as_bytes(), mode)
}

#[test]
fn a_held_file_outlives_its_names() {
    let fs = WritableMemoryFs::new();
    let f = file(&fs, "f");
    fs.hold(f);
    fs.unlink(ROOT, b"f").unwrap();
    assert_eq!(fs.write_at(f, 0, b"still").unwrap(), 5);
    assert_eq!(kind(fs.link(f, ROOT, b"again")), ErrorKind::NotFound);
    fs.release(f).unwrap();
    assert_eq!(kind(fs.metadata(f)), ErrorKind::NotFound);
    assert_eq!(fs.statistics().unwrap().blocks_free, 4 << 20);
    let again = file(&fs, "g");
    assert_eq!(again, f, "its number is used again");
    assert_eq!(fs.metadata(again).unwrap().generation, 2);
}

#[test]
fn a_file_without_a_name_gets_one_once() {
    let fs = WritableMemoryFs::new();
    let f = fs.create_unnamed(ROOT, &PLAIN).unwrap();
    assert_eq!(links(&fs, f), 0);
    fs.link(f, ROOT, b"f").unwrap();
    fs.release(f).unwrap();
    assert_eq!(links(&fs, f), 1);
    let gone = fs.create_unnamed(ROOT, &PLAIN).unwrap();
    fs.release(gone).unwrap();
    assert_eq!(fs.file_count(), 2);
}

#[test]
fn renames_of_every_mode() {
    let fs = WritableMemoryFs::new();
    let (a, b) = (file(&fs, "a"), file(&fs, "b"));
    let result = rename(&fs, "a", "b", RenameMode::NoReplace);
    assert_eq!(kind(result), ErrorKind::Exists);
    rename(&fs, "a", "b", RenameMode::Exchange).unwrap();
    assert_eq!(fs.lookup(ROOT, b"a").unwrap(), b);
    rename(&fs, "a", "b", RenameMode::Whiteout).unwrap();
    assert_eq!(fs.lookup(ROOT, b"b").unwrap(), b);
    assert_eq!(kind(fs.metadata(a)), ErrorKind::NotFound);
    let whiteout = fs.metadata(fs.lookup(ROOT, b"a").unwrap()).unwrap();
    assert_eq!(whiteout.file_type, FileType::CharacterDevice);
    assert_eq!(whiteout.device, Some(Device::default()));
    let result = rename(&fs, "none", "b", RenameMode::Exchange);
    assert_eq!(kind(result), ErrorKind::NotFound);
    fs.link(b, ROOT, b"same").unwrap();
    rename(&fs, "b", "same", RenameMode::Replace).unwrap();
    assert_eq!(links(&fs, b), 2, "two names of one file stay");
}

#[test]
fn directories_move_with_their_links() {
    let fs = WritableMemoryFs::new();
    let (a, b) = (dir(&fs, ROOT, "a"), dir(&fs, ROOT, "b"));
    let deep = dir(&fs, a, "deep");
    assert_eq!((links(&fs, ROOT), links(&fs, a)), (4, 3));
    let below = fs.rename(ROOT, b"a", deep, b"x", RenameMode::Replace);
    assert_eq!(kind(below), ErrorKind::Invalid);
    let above = fs.rename(a, b"deep", ROOT, b"a", RenameMode::Replace);
    assert_eq!(kind(above), ErrorKind::NotEmpty);
    fs.rename(a, b"deep", ROOT, b"b", RenameMode::Replace)
        .unwrap();
    assert_eq!((links(&fs, ROOT), links(&fs, a)), (4, 2));
    assert_eq!(kind(fs.metadata(b)), ErrorKind::NotFound);
    assert_eq!(fs.lookup(deep, b"..").unwrap(), ROOT);
    let f = fs.create(a, b"f", NewKind::Regular, &PLAIN).unwrap();
    fs.rename(ROOT, b"b", a, b"f", RenameMode::Exchange)
        .unwrap();
    assert_eq!((links(&fs, ROOT), links(&fs, a)), (3, 3));
    assert_eq!(fs.lookup(ROOT, b"b").unwrap(), f);
    assert_eq!(kind(fs.rmdir(ROOT, b"a")), ErrorKind::NotEmpty);
    assert_eq!(kind(fs.rmdir(ROOT, b"b")), ErrorKind::NotADirectory);
    assert_eq!(kind(fs.unlink(ROOT, b"a")), ErrorKind::IsADirectory);
}

#[test]
fn a_removed_directory_takes_nothing() {
    let fs = WritableMemoryFs::new();
    let d = dir(&fs, ROOT, "d");
    fs.hold(d);
    fs.rmdir(ROOT, b"d").unwrap();
    let result = fs.create(d, b"f", NewKind::Regular, &PLAIN);
    assert_eq!(kind(result), ErrorKind::NotFound);
    assert_eq!(links(&fs, ROOT), 2);
}

#[test]
fn ranges_are_allocated_punched_zeroed_and_moved() {
    let fs = WritableMemoryFs::new();
    let f = file(&fs, "f");
    let data: Vec<u8> = (0..5_u8).flat_map(|n| [n + 1; 4096]).collect();
    fs.write_at(f, 0, &data).unwrap();
    let change = |offset, len, what| fs.fallocate(f, offset, len, what);
    let mut model = data.clone();

    change(4000, 5000, Fallocate::PunchHole).unwrap();
    model[4000..9000].fill(0);
    assert!(contents(&fs, f) == model);
    let kinds: Vec<_> = fs.extents_of(f, 0).unwrap().map(|e| e.unwrap()).collect();
    assert_eq!(kinds[1].kind, FileExtentKind::Hole);
    assert_eq!((kinds[1].offset, kinds[1].len_bytes), (4096, 4096));

    change(8192, 4096, Fallocate::CollapseRange).unwrap();
    model.drain(8192..12288);
    assert!(contents(&fs, f) == model);
    change(4096, 8192, Fallocate::InsertRange).unwrap();
    model.splice(4096..4096, [0; 8192]);
    assert!(contents(&fs, f) == model);
    change(100, 20_000, Fallocate::ZeroRangeKeepSize).unwrap();
    model[100..20_100].fill(0);
    assert!(contents(&fs, f) == model);
    change(24_000, 6000, Fallocate::ZeroRange).unwrap();
    model.resize(24_000, 0);
    model.resize(30_000, 0);
    assert!(contents(&fs, f) == model);
    change(1 << 20, 4096, Fallocate::AllocateKeepSize).unwrap();
    assert!(contents(&fs, f) == model);
    let result = change(1, 4096, Fallocate::CollapseRange);
    assert_eq!(kind(result), ErrorKind::Invalid);
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let fs = WritableMemoryFs::new();
    let f = file(&fs, "f");
    fs.write_at(f, 0, &[7; 10_000]).unwrap();
    fs.set_len(f, 5000).unwrap();
    fs.set_len(f, 10_000).unwrap();
    let found = contents(&fs, f);
    assert!(found[..5000].iter().all(|&b| b == 7) && found[5000..].iter().all(|&b| b == 0));
    assert_eq!(fs.metadata(f).unwrap().allocated_bytes, 8192);
}

#[test]
fn a_full_filesystem_takes_what_fits() {
    let fs = WritableMemoryFs::with_limits(Limits {
        blocks: 2,
        inodes: 3,
    });
    let f = file(&fs, "f");
    assert_eq!(fs.write_at(f, 0, &[1; 10_000]).unwrap(), 8192);
    assert_eq!(kind(fs.write_at(f, 8192, b"x")), ErrorKind::NoSpace);
    let more = fs.fallocate(f, 0, 1 << 40, Fallocate::Allocate);
    assert_eq!(kind(more), ErrorKind::NoSpace);
    assert_eq!(fs.write_at(f, 4000, &[2; 4000]).unwrap(), 4000);
    file(&fs, "g");
    let third = fs.create(ROOT, b"h", NewKind::Regular, &PLAIN);
    assert_eq!(kind(third), ErrorKind::NoSpace);
}

/// Returns an ACL: owner rwx, user 5 rwx, group r-x, mask rwx, others r-x.
fn acl_value() -> Vec<u8> {
    let entry = |tag: u8, bits: u8, id: u32| [&[tag, 0, bits, 0][..], &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let entries = [
        entry(1, 7, none),
        entry(2, 7, 5),
        entry(4, 5, none),
        entry(16, 7, none),
        entry(32, 5, none),
    ];
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

#[test]
fn acls_and_modes_follow_each_other() {
    let fs = WritableMemoryFs::new();
    let f = file(&fs, "f");
    let set = |inode, name| fs.set_xattr(inode, name, &acl_value(), SetXattr::Any);
    set(f, acl::ACCESS).unwrap();
    assert_eq!(fs.metadata(f).unwrap().permissions, 0o775);
    let chmod = SetMetadata {
        permissions: Some(0o640),
        ..SetMetadata::default()
    };
    fs.set_metadata(f, &chmod).unwrap();
    let found = fs.xattr(f, acl::ACCESS).unwrap().unwrap();
    let parsed = acl::Acl::parse(&found).unwrap().unwrap();
    assert_eq!(parsed.mode(), 0o640);
    assert_eq!(
        found[4 + 8 + 2],
        7,
        "the named user keeps what the mask hides"
    );
    assert_eq!(kind(set(f, acl::DEFAULT)), ErrorKind::Denied);
}

#[test]
fn a_default_acl_goes_before_the_mask() {
    let fs = WritableMemoryFs::new();
    let d = dir(&fs, ROOT, "d");
    fs.set_xattr(d, acl::DEFAULT, &acl_value(), SetXattr::Create)
        .unwrap();
    let attributes = NewAttributes {
        umask: 0o077,
        ..NewAttributes::for_root(0o666)
    };
    let f = fs.create(d, b"f", NewKind::Regular, &attributes).unwrap();
    assert_eq!(fs.metadata(f).unwrap().permissions, 0o664);
    assert_eq!(fs.list_xattrs(f).unwrap(), [acl::ACCESS]);
    let sub = dir(&fs, d, "sub");
    assert_eq!(fs.xattr(sub, acl::DEFAULT).unwrap(), Some(acl_value()));
    let plain = fs
        .create(ROOT, b"f", NewKind::Regular, &attributes)
        .unwrap();
    assert_eq!(fs.metadata(plain).unwrap().permissions, 0o600);
}

#[test]
fn the_group_is_handed_down() {
    let fs = WritableMemoryFs::new();
    let d = dir(&fs, ROOT, "d");
    let change = SetMetadata {
        permissions: Some(0o2775),
        gid: Some(50),
        ..SetMetadata::default()
    };
    fs.set_metadata(d, &change).unwrap();
    let sub = fs.metadata(dir(&fs, d, "sub")).unwrap();
    assert_eq!((sub.gid, sub.permissions), (50, 0o2755));
    let f = fs.create(d, b"f", NewKind::Regular, &PLAIN).unwrap();
    let f = fs.metadata(f).unwrap();
    assert_eq!((f.gid, f.permissions), (50, 0o644));
}

#[test]
fn fixed_files_stay_as_they_are() {
    let fs = WritableMemoryFs::new();
    let f = file(&fs, "f");
    let set = |immutable, append_only| {
        let flags = FileFlags {
            immutable,
            append_only,
            ..FileFlags::default()
        };
        let change = SetMetadata {
            flags: Some(flags),
            ..SetMetadata::default()
        };
        fs.set_metadata(f, &change).unwrap();
    };
    set(false, true);
    fs.write_at(f, 0, b"log").unwrap();
    assert_eq!(kind(fs.write_at(f, 0, b"x")), ErrorKind::NotPermitted);
    fs.write_at(f, 3, b"log").unwrap();
    set(true, false);
    let touch = SetMetadata {
        modified: Some(SetTime::Now),
        ..SetMetadata::default()
    };
    for result in [
        fs.write_at(f, 6, b"x").map(drop),
        fs.set_len(f, 0),
        fs.unlink(ROOT, b"f"),
        fs.link(f, ROOT, b"g"),
        rename(&fs, "f", "g", RenameMode::Replace),
        fs.set_xattr(f, b"user.x", b"", SetXattr::Any),
        fs.set_metadata(f, &touch),
    ] {
        assert_eq!(kind(result), ErrorKind::NotPermitted);
    }
    set(false, false);
    fs.unlink(ROOT, b"f").unwrap();
}

#[test]
fn listings_go_on_behind_their_cookies() {
    let fs = WritableMemoryFs::new();
    for n in 0..10 {
        file(&fs, &n.to_string());
    }
    let names = |cookie| -> Vec<DirEntry> {
        fs.read_dir(ROOT, cookie)
            .unwrap()
            .collect::<Result<_>>()
            .unwrap()
    };
    let all = names(0);
    assert_eq!(all.len(), 12);
    let behind = all[4].cookie;
    fs.unlink(ROOT, b"2").unwrap();
    assert_eq!(names(behind), all[5..]);
}

#[test]
fn closing_ends_writing_and_what_was_only_held() {
    let fs = WritableMemoryFs::new();
    let f = file(&fs, "f");
    fs.sync_file(f, SyncFile::All).unwrap();
    fs.create_unnamed(ROOT, &PLAIN).unwrap();
    fs.close().unwrap();
    assert_eq!(
        fs.take_synced(),
        [Synced::File(f, SyncFile::All), Synced::Closed]
    );
    assert_eq!(fs.file_count(), 2);
    assert_eq!(kind(fs.write_at(f, 0, b"x")), ErrorKind::ReadOnly);
}
