//! Modes, owners, ACLs and flags: the checks, and the bits that changes clear.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use diskfs::export::fuse::IdMap;
use diskfs::vfs::testing::WritableMemoryFs;
use diskfs::vfs::{FsRead, InodeNumber};
use diskfs_fixtures::require;
use rustix::fs::{IFlags, XattrFlags};

use super::{Writable, failure};
use crate::{can_mount, run, stderr};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn make(path: &Path, mode: u32) {
    fs::write(path, "x").unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs a shell command as another user.
fn as_user(uid: u32, script: &str, path: &Path) -> Output {
    let id = uid.to_string();
    Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .args(["sh", "-c", script, "sh"])
        .arg(path)
        .output()
        .unwrap()
}

/// Returns a valid value of `security.capability`: `cap_net_raw=ep` in revision 2
/// (linux/capability.h).
fn capability() -> Vec<u8> {
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn rights_are_lost_by_writing() {
    if can_mount().is_none() || require("setpriv").is_none() {
        return;
    }
    let m = Writable::new();
    for (name, script, before, after) in [
        ("write", "echo y >>\"$1\"", 0o6777, 0o777),
        ("cut", "truncate -s 0 \"$1\"", 0o6777, 0o777),
        ("truncating open", ": >\"$1\"", 0o6777, 0o777),
        ("grow", "truncate -s 9 \"$1\"", 0o4777, 0o777),
        // The writer is not in the file's group: then the mandatory-locking bit is cleared, too.
        ("locking bit", "echo y >>\"$1\"", 0o6767, 0o767),
        ("reading", "cat \"$1\" >/dev/null", 0o6777, 0o6777),
    ] {
        let path = m.join(name);
        make(&path, before);
        let done = as_user(1234, script, &path);
        assert!(done.status.success(), "{name}: {}", stderr(&done));
        assert_eq!(mode(&path), after, "{name}");
        let inode = InodeNumber(fs::metadata(&path).unwrap().ino());
        let stored = m.fs.metadata(inode).unwrap().permissions;
        assert_eq!(u32::from(stored), after, "{name}");
    }
}

/// Tests generic/355, 683, 684 and 685 of xfstests: past the cache, and without writing.
#[test]
fn rights_are_lost_by_every_change_of_contents() {
    if can_mount().is_none() || require("setpriv").is_none() || require("python3").is_none() {
        return;
    }
    let fallocate = |how: &str| format!("fallocate {how} \"$1\"");
    let copy = "import os,sys; s=os.open(sys.argv[1]+'.from',0); d=os.open(sys.argv[1],1); \
        assert os.copy_file_range(s,d,4096)==4096";
    let scripts = [
        "dd if=/dev/zero of=\"$1\" bs=4096 count=1 oflag=direct conv=notrunc 2>&1".to_owned(),
        "dd if=/dev/zero of=\"$1\" bs=4096 count=1 conv=notrunc 2>&1".to_owned(),
        fallocate("-l 65536"),
        fallocate("-n -l 65536"),
        fallocate("-p -o 0 -l 4096"),
        fallocate("-z -l 4096"),
        fallocate("-z -n -l 4096"),
        format!("python3 -c \"{copy}\" \"$1\""),
    ];
    let m = Writable::new();
    let path = m.join("f");
    for script in &scripts {
        for (before, after) in [
            (0o6666, 0o2666),
            (0o6777, 0o777),
            (0o4711, 0o711),
            (0o2711, 0o711),
        ] {
            for (user, owner) in [(65534, 65534), (65534, 0), (0, 0)] {
                if user != owner && before & 0o002 == 0 {
                    continue;
                }
                // A user who is not in the group clears all of them.
                let after = after & if user == owner { 0o7777 } else { 0o777 };
                fs::write(m.join("f.from"), [1; 4096]).unwrap();
                fs::write(&path, [0; 16384]).unwrap();
                chown(&path, Some(owner), Some(owner)).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
                assert_eq!(mode(&path), before);
                let done = as_user(user, script, &path);
                assert!(done.status.success(), "{script}: {}", stderr(&done));
                let after = if user == 0 { before } else { after };
                let case = format!("{before:o} of {owner} by {user}: {script}");
                assert_eq!(format!("{:o}", mode(&path)), format!("{after:o}"), "{case}");
                let inode = InodeNumber(fs::metadata(&path).unwrap().ino());
                let stored = u32::from(m.fs.metadata(inode).unwrap().permissions);
                assert_eq!(stored, after, "{case}");
            }
        }
    }
}

#[test]
fn rights_are_lost_by_giving_away() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    make(&path, 0o6755);
    chown(&path, Some(5), Some(6)).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid(), mode(&path)), (5, 6, 0o755));
    let dir = m.join("d");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o2775)).unwrap();
    chown(&dir, None, Some(6)).unwrap();
    assert_eq!(mode(&dir), 0o2775, "on a directory it means something else");
}

/// A change of a file.
type Change = fn(&Path);

#[test]
fn capabilities_are_lost_too() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let changes: [(&str, Change); 4] = [
        ("write", |path| {
            use std::io::Write;
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(b"y").unwrap();
        }),
        ("cut", |path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(0).unwrap();
        }),
        ("truncating open", |path| fs::write(path, "").unwrap()),
        ("chown", |path| chown(path, Some(7), None).unwrap()),
    ];
    for (name, change) in changes {
        let path = m.join(name);
        make(&path, 0o755);
        // Also those that are set after a write.
        for _ in 0..2 {
            let set = XattrFlags::empty();
            rustix::fs::setxattr(&path, "security.capability", &capability(), set).unwrap();
            change(&path);
            let found = rustix::fs::getxattr(&path, "security.capability", &mut [0_u8; 64]);
            assert_eq!(found, Err(rustix::io::Errno::NODATA), "{name}");
        }
    }
}

#[test]
fn modes_and_masks_are_those_of_who_makes_a_file() {
    if can_mount().is_none() || require("setpriv").is_none() {
        return;
    }
    let m = Writable::new();
    let done = as_user(1234, "cd \"$1\" && umask 027 && touch f && mkdir d", &m);
    assert!(done.status.success(), "{}", stderr(&done));
    for (name, wanted) in [("f", 0o640), ("d", 0o750)] {
        let found = fs::metadata(m.join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (1234, 1234));
        assert_eq!(mode(&m.join(name)), wanted, "{name}");
    }
    assert!(!as_user(99, "cat \"$1\"", &m.join("f")).status.success());
    let group = m.join("group");
    fs::create_dir(&group).unwrap();
    chown(&group, None, Some(50)).unwrap();
    fs::set_permissions(&group, Permissions::from_mode(0o2777)).unwrap();
    as_user(1234, "touch \"$1\"/f; mkdir \"$1\"/d", &group);
    assert_eq!(fs::metadata(group.join("f")).unwrap().gid(), 50);
    assert_eq!(mode(&group.join("d")) & 0o2000, 0o2000);
}

#[test]
fn default_acls_are_inherited_and_go_before_the_mask() {
    if can_mount().is_none() || require("setfacl").is_none() || require("setpriv").is_none() {
        return;
    }
    let m = Writable::new();
    let dir = m.join("d");
    fs::create_dir(&dir).unwrap();
    let args = ["-d", "-m", "u:1234:rwx,g::rx,o::-"];
    let words = args.iter().map(AsRef::as_ref).chain([dir.as_os_str()]);
    run("setfacl", &words.collect::<Vec<_>>());
    let made = as_user(0, "umask 077; cd \"$1\" && touch f && mkdir sub", &dir);
    assert!(made.status.success(), "{}", stderr(&made));
    let acl = |name: &str| {
        let path = dir.join(name);
        run("getfacl", &["-ncEp".as_ref(), path.as_os_str()])
    };
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    assert_eq!(
        lines(acl("f").trim()),
        [
            "user::rw-",
            "user:1234:rwx",
            "group::r-x",
            "mask::rw-",
            "other::---"
        ]
    );
    let sub = acl("sub");
    assert!(
        sub.contains("default:user:1234:rwx") && sub.contains("\nuser:1234:rwx"),
        "{sub}"
    );
    // The kernel checks by it.
    let file = dir.join("f");
    fs::set_permissions(&dir, Permissions::from_mode(0o711)).unwrap();
    assert!(
        as_user(1234, "cat \"$1\" && echo y >>\"$1\"", &file)
            .status
            .success()
    );
    assert!(!as_user(1235, "cat \"$1\"", &file).status.success());
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert!(acl("f").contains("mask::---"));
    assert!(!as_user(1234, "cat \"$1\"", &file).status.success());
}

#[test]
fn extended_attributes_are_set_and_removed() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    fs::write(&path, "").unwrap();
    let set = |value: &[u8], flags| rustix::fs::setxattr(&path, "user.note", value, flags);
    let replaced = set(b"1", XattrFlags::REPLACE);
    assert_eq!(replaced, Err(rustix::io::Errno::NODATA));
    set(b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(set(b"2", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
    set(&[7; 5000], XattrFlags::REPLACE).unwrap();
    let mut value = vec![0; 6000];
    assert_eq!(
        rustix::fs::getxattr(&path, "user.note", &mut value[..]),
        Ok(5000)
    );
    rustix::fs::removexattr(&path, "user.note").unwrap();
    let again = rustix::fs::removexattr(&path, "user.note");
    assert_eq!(again, Err(rustix::io::Errno::NODATA));
}

#[test]
fn flags_are_set_and_hold() {
    if can_mount().is_none() {
        return;
    }
    let m = Writable::new();
    let path = m.join("f");
    fs::write(&path, "before").unwrap();
    let file = File::open(&path).unwrap();
    let writer = File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &writer, b", and cached").unwrap();
    rustix::fs::ioctl_setflags(&file, IFlags::IMMUTABLE).unwrap();
    assert_eq!(rustix::fs::ioctl_getflags(&file), Ok(IFlags::IMMUTABLE));
    drop(writer);
    let opened = File::options().write(true).open(&path);
    assert_eq!(failure(opened), Some(libc::EPERM));
    assert_eq!(failure(fs::remove_file(&path)), Some(libc::EPERM));
    rustix::fs::ioctl_setflags(&file, IFlags::APPEND).unwrap();
    assert_eq!(failure(fs::write(&path, "x")), Some(libc::EPERM));
    let mut appender = File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut appender, b"!").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before, and cached!");
    rustix::fs::ioctl_setflags(&file, IFlags::empty()).unwrap();
    fs::remove_file(&path).unwrap();
    let dir = File::open(&*m).unwrap();
    rustix::fs::ioctl_setflags(&dir, IFlags::NODUMP).unwrap();
    assert!(m.fs.metadata(m.fs.root()).unwrap().flags.no_dump);
    let compressed = rustix::fs::ioctl_setflags(&dir, IFlags::COMPRESSED);
    assert_eq!(compressed, Err(rustix::io::Errno::OPNOTSUPP));
}

#[test]
fn owners_are_mapped_in_both_directions() {
    if can_mount().is_none() || require("setfacl").is_none() {
        return;
    }
    let ids = IdMap {
        uid: "0:100000:1000".parse().unwrap(),
        gid: "0:100000:1000".parse().unwrap(),
    };
    let m = Writable::with_ids(WritableMemoryFs::new(), ids);
    let stored = |path: &Path| {
        let found =
            m.fs.metadata(InodeNumber(fs::metadata(path).unwrap().ino()));
        found.map(|found| (found.uid, found.gid)).unwrap()
    };
    let made = as_user(100_005, "touch \"$1\"/f", &m);
    assert!(made.status.success(), "{}", stderr(&made));
    let path = m.join("f");
    assert_eq!(stored(&path), (5, 5));
    chown(&path, Some(100_007), None).unwrap();
    assert_eq!(stored(&path), (7, 5));
    assert_eq!(fs::metadata(&path).unwrap().uid(), 100_007);
    assert_eq!(failure(chown(&path, Some(5), None)), Some(libc::EOVERFLOW));
    // The host's root has no number on the image.
    assert_eq!(failure(File::create(m.join("g"))), Some(libc::EOVERFLOW));
    let words = ["-m", "u:100009:rw"].map(AsRef::as_ref);
    run("setfacl", &[words[0], words[1], path.as_os_str()]);
    let inode = InodeNumber(fs::metadata(&path).unwrap().ino());
    let acl =
        m.fs.xattr(inode, b"system.posix_acl_access")
            .unwrap()
            .unwrap();
    // The version, the owner's entry, then the user's entry with its id.
    assert_eq!(acl[4 + 8 + 4..4 + 8 + 8], 9_u32.to_le_bytes());
}

#[test]
fn everything_is_one_users_and_new_files_are_their_directorys() {
    if can_mount().is_none() {
        return;
    }
    let fs = WritableMemoryFs::new();
    let ids = IdMap {
        uid: "1234".parse().unwrap(),
        gid: "1234".parse().unwrap(),
    };
    let m = Writable::with_ids(fs, ids);
    let done = as_user(1234, "mkdir \"$1\"/d && touch \"$1\"/d/f", &m);
    assert!(done.status.success(), "{}", stderr(&done));
    let found = fs::metadata(m.join("d/f")).unwrap();
    assert_eq!((found.uid(), found.gid()), (1234, 1234));
    let stored = m.fs.metadata(InodeNumber(found.ino())).unwrap();
    assert_eq!((stored.uid, stored.gid), (0, 0));
}
