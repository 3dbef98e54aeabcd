//! The commands that write, checked with the kernel's mount and e2fsck.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use diskfs::OpenOptions;
use diskfs::image::Image;
use diskfs_fixtures::{Mount, Tree, expected_tree, image, require, require_root};
use tempfile::TempDir;

use crate::{DISKFS, Run, diskfs_in, text_of};

/// A directory with an empty ext4 filesystem, `disk.img`.
pub(crate) struct Guest(TempDir);

impl Guest {
    pub(crate) fn new() -> Option<Self> {
        require("mke2fs")?;
        require("e2fsck")?;
        let guest = Self(tempfile::tempdir().unwrap());
        fs::File::create(guest.at("disk.img"))
            .unwrap()
            .set_len(128 << 20)
            .unwrap();
        let made = diskfs_fixtures::command("mke2fs")
            .args(["-q", "-t", "ext4", "-b", "4096", "-I", "256"])
            .arg(guest.at("disk.img"))
            .status();
        assert!(made.unwrap().success());
        Some(guest)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn diskfs(&self, words: &[&str]) -> Run {
        diskfs_in(self.0.path(), words)
    }

    /// Runs commands that must succeed and print nothing; each is given as words between blanks.
    pub(crate) fn all(&self, commands: &[&str]) {
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let run = self.diskfs(&words);
            assert_eq!(
                (run.code(), run.stderr()),
                (Some(0), String::new()),
                "{command}"
            );
        }
    }

    fn with_input(&self, words: &[&str], input: &[u8]) -> Run {
        let file = self.at("input");
        fs::write(&file, input).unwrap();
        let output = Command::new(DISKFS)
            .args(words)
            .current_dir(self.0.path())
            .stdin(fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        Run { output }
    }

    pub(crate) fn cat(&self, path: &str) -> String {
        self.diskfs(&["cat", &format!("disk.img:{path}")]).text()
    }

    /// Returns mode, owner, links and modification time of a file, by `stat`.
    pub(crate) fn stat(&self, path: &str) -> (String, u64, u64, u64, String) {
        let json = self.diskfs(&["stat", "--json", &format!("disk.img:{path}")]);
        let json = json.json();
        let file = &json["entries"][0];
        let number = |name: &str| file[name].as_u64().unwrap();
        (
            text_of(&file["mode"]).to_owned(),
            number("uid"),
            number("gid"),
            number("links"),
            text_of(&file["modified"]).to_owned(),
        )
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let text = self.diskfs(&["ls", &format!("disk.img:{path}")]).text();
        text.lines().map(str::to_owned).collect()
    }

    /// Checks that e2fsck finds nothing.
    pub(crate) fn is_sound(&self) {
        let output = diskfs_fixtures::command("e2fsck")
            .args(["-f", "-n"])
            .arg(self.at("disk.img"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn files_are_made_and_moved_and_removed() {
    let Some(guest) = Guest::new() else { return };
    guest.all(&[
        "mkdir disk.img:/etc /srv",
        "mkdir -p disk.img:/srv/a/b /srv/a/b",
        "mkdir -m 1777 disk.img:/tmp",
        "touch disk.img:/srv/a/one /srv/a/two",
        "mv disk.img:/srv/a/one /srv/a/two /srv/a/b",
        "mv disk.img:/srv/a/b/one disk.img:/srv/renamed",
        "ln disk.img:/srv/renamed /srv/second",
        "ln -s ../srv/renamed disk.img:/etc/link",
        "ln -sf renamed disk.img:/srv/second",
        "rm disk.img:/srv/a/b/two",
        "rm -f disk.img:/srv/a/nothing",
    ]);
    assert_eq!(guest.names("/srv"), ["a", "renamed", "second"]);
    assert_eq!(guest.stat("/tmp").0, "1777");
    assert_eq!(guest.stat("/srv/a").0, "0755");
    assert_eq!(guest.stat("/srv/renamed").3, 1);
    let link = guest.diskfs(&["find", "disk.img:/", "-type", "l", "-printf", "%p %l\\n"]);
    let mut links: Vec<_> = link.text().lines().map(str::to_owned).collect();
    links.sort();
    assert_eq!(links, ["/etc/link ../srv/renamed", "/srv/second renamed"]);
    guest.is_sound();
    let removed = guest.diskfs(&["-v", "rm", "-r", "disk.img:/srv"]);
    let removed = String::from_utf8_lossy(&removed.output.stdout).into_owned();
    assert!(removed.ends_with("removed /srv\n"), "{removed}");
    assert_eq!(guest.names("/"), ["etc", "lost+found", "tmp"]);
    guest.is_sound();
}

#[test]
fn contents_and_attributes_are_changed() {
    let Some(guest) = Guest::new() else { return };
    guest
        .with_input(&["write", "disk.img:/f"], b"one\n")
        .bytes();
    assert_eq!(guest.stat("/f").0, "0644");
    guest
        .with_input(&["write", "--append", "disk.img:/f"], b"two\n")
        .bytes();
    assert_eq!(guest.cat("/f"), "one\ntwo\n");
    guest.all(&[
        "chmod 4750 disk.img:/f",
        "ln -s f disk.img:/link",
        "touch -d @1000000000.5 disk.img:/f",
        "xattr set user.comment 0x00ff0a disk.img:/f",
    ]);
    assert!(guest.stat("/f").4.starts_with("2001-09-09T01:46:40.5"));
    // Through a symlink; all other metadata of the file is kept.
    guest
        .with_input(&["write", "disk.img:/link"], &b"x".repeat(100_000))
        .bytes();
    assert_eq!(guest.stat("/f").0, "4750");
    assert_eq!(guest.cat("/f").len(), 100_000);
    let value = guest.diskfs(&["xattr", "get", "-e", "hex", "user.comment", "disk.img:/f"]);
    assert_eq!(value.text(), "0x00ff0a\n");
    guest.all(&["chown 7:8 disk.img:/f"]);
    assert_eq!(guest.stat("/f").0, "0750", "chown takes set-user-id away");
    guest.all(&[
        "chmod -R u=rw,go= disk.img:/f",
        "truncate -s 10 disk.img:/f",
        "truncate -s +1G disk.img:/f",
        "truncate -s %64k disk.img:/new",
        "xattr remove user.comment disk.img:/f",
        "touch -a -r /f disk.img:/new",
        "touch -c disk.img:/none",
    ]);
    assert_eq!(guest.stat("/f").0, "0600");
    assert_eq!((guest.stat("/f").1, guest.stat("/f").2), (7, 8));
    let listed = guest.diskfs(&["xattr", "list", "disk.img:/f"]).text();
    assert_eq!(listed, "");
    assert!(!guest.names("/").contains(&"none".to_owned()));
    let write = ["write", "--mode", "u+x", "--owner", "0:5", "disk.img:/link"];
    guest.with_input(&write, b"#!\n").bytes();
    assert_eq!((guest.stat("/f").0, guest.stat("/f").2), ("0700".into(), 5));
    guest.is_sound();
}

#[test]
fn owners_have_the_guests_names() {
    let Some(guest) = Guest::new() else { return };
    guest.all(&["mkdir disk.img:/etc", "touch disk.img:/f"]);
    let passwd = b"root:x:0:0::/:/bin/sh\nweb:x:33:44::/:/bin/false\n";
    guest
        .with_input(&["write", "disk.img:/etc/passwd"], passwd)
        .bytes();
    guest
        .with_input(
            &["write", "disk.img:/etc/group"],
            b"root:x:0:\nstaff:x:50:\n",
        )
        .bytes();
    for (owner, expected) in [
        ("web", (33, 0)),
        ("web:", (33, 44)),
        (":staff", (33, 50)),
        ("0:7", (0, 7)),
    ] {
        guest.diskfs(&["chown", owner, "disk.img:/f"]).bytes();
        let stat = guest.stat("/f");
        assert_eq!((stat.1, stat.2), expected, "{owner}");
    }
    let (code, stderr) = guest.diskfs(&["chown", "nobody", "disk.img:/f"]).failure();
    assert_eq!(code, 2);
    assert!(stderr.contains("no such user: `nobody`"), "{stderr}");
}

#[test]
fn the_editor_gets_a_copy() {
    let Some(guest) = Guest::new() else { return };
    guest
        .with_input(&["write", "disk.img:/f.conf"], b"one\n")
        .bytes();
    guest.all(&["chmod 0640 disk.img:/f.conf"]);
    let edit = |editor: &str, path: &str| {
        let output = Command::new(DISKFS)
            .args(["edit", path])
            .current_dir(guest.0.path())
            .env("EDITOR", editor)
            .env_remove("VISUAL")
            .output()
            .unwrap();
        Run { output }
    };
    // An editor with its own option, which sees the file's name.
    let editor = "sh -c 'case $1 in */f.conf) echo two >> $1;; esac' --";
    edit(editor, "disk.img:/f.conf").bytes();
    assert_eq!(guest.cat("/f.conf"), "one\ntwo\n");
    assert_eq!(guest.stat("/f.conf").0, "0640");
    let before = fs::read(guest.at("disk.img")).unwrap();
    let (_, stderr) = edit("false", "disk.img:/f.conf").failure();
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    edit("true", "disk.img:/f.conf").bytes();
    assert_eq!(guest.cat("/f.conf"), "one\ntwo\n");
    assert_eq!(before.len(), fs::read(guest.at("disk.img")).unwrap().len());
    edit("sh -c 'echo new > $1' --", "disk.img:/new").bytes();
    assert_eq!(guest.cat("/new"), "new\n");
    guest.is_sound();
}

/// Removes what a copy can't have: inode numbers and change times of its own filesystem.
fn comparable(mut tree: Tree) -> Tree {
    tree.statfs = None;
    tree.entries
        .retain(|entry| !entry.path.starts_with("lost+found"));
    for entry in &mut tree.entries {
        entry.inode = 0;
        entry.allocated = 0;
        entry.ctime = String::new();
        entry.btime = None;
        entry.holes = None;
        entry.flags = Vec::new();
        if entry.kind == 'd' {
            entry.size = 0;
            entry.links = 0;
        }
        if entry.path.is_empty() {
            entry.mtime = String::new();
        }
        // Reading the file to pack or to compare it changes the access time.
        entry.atime = String::new();
    }
    tree
}

fn assert_holds(guest: &Guest, what: &str, expected: Tree) {
    guest.is_sound();
    let mount = Mount::of_image(&guest.at("disk.img"), "ro").unwrap();
    let found = comparable(Tree::of_directory(mount.path()).unwrap());
    let sparse = fs::metadata(mount.path().join("sparse-middle")).unwrap();
    assert!(sparse.blocks() * 512 < sparse.size(), "holes stay holes");
    mount.unmount().unwrap();
    let differences = comparable(expected).differences(&found);
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

#[test]
fn cp_and_tar_in_keep_everything() {
    if require_root().is_none() {
        return;
    }
    let source = image("ext4-default");
    for way in ["cp", "tar-in", "tar-in.gz"] {
        let Some(guest) = Guest::new() else { return };
        let from = source.path();
        let from = from.to_str().unwrap();
        let out = guest.at("out");
        if way == "cp" {
            guest
                .diskfs(&["cp", "-a", &format!("{from}:/"), "out"])
                .bytes();
            // Twice: the second run replaces the existing files.
            for _ in 0..2 {
                guest.diskfs(&["cp", "-a", "out/.", "disk.img:/"]).bytes();
            }
            assert_holds(&guest, way, expected_tree("ext4-default"));
            fs::remove_dir_all(out).unwrap();
            continue;
        }
        let tar = guest.diskfs(&["tar", "-f", "out.tar", from]);
        assert_eq!(tar.code(), Some(0), "{}", tar.stderr());
        if way == "tar-in.gz" {
            let packed = Command::new("gzip").arg(guest.at("out.tar")).status();
            assert!(packed.unwrap().success());
            fs::rename(guest.at("out.tar.gz"), guest.at("out.tar")).unwrap();
        }
        for _ in 0..2 {
            guest
                .diskfs(&["tar-in", "-f", "out.tar", "disk.img:/"])
                .bytes();
        }
        let mut expected = expected_tree("ext4-default");
        expected.entries.retain(|entry| entry.path != "socket");
        assert_holds(&guest, way, expected);
    }
}

#[test]
fn tar_in_reads_what_gnu_tar_writes() {
    if require_root().is_none() || require("tar").is_none() {
        return;
    }
    let Some(guest) = Guest::new() else { return };
    let tree = guest.at("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("n".repeat(200)), "long name").unwrap();
    symlink("t".repeat(150), tree.join("long-target")).unwrap();
    let sparse = fs::File::create(tree.join("sparse-middle")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    for n in 0..30_u64 {
        std::os::unix::fs::FileExt::write_all_at(&sparse, &[7; 4096], n * (128 << 10)).unwrap();
    }
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o700)).unwrap();
    let expected = Tree::of_directory(&tree).unwrap();
    for format in [
        &["--format=gnu"][..],
        &["--format=posix"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
    ] {
        let status = Command::new("tar")
            .args(["-c", "-S", "-f", "out.tar"])
            .args(format)
            .args(["-C", "tree", "."])
            .current_dir(guest.0.path())
            .status();
        assert!(status.unwrap().success());
        guest
            .diskfs(&["rm", "-rf", "disk.img:/long-target", "/sparse-middle"])
            .bytes();
        guest
            .diskfs(&["tar-in", "-f", "out.tar", "disk.img:/"])
            .bytes();
        let mut expected = expected.clone();
        for entry in &mut expected.entries {
            // The old format has whole seconds.
            if format == ["--format=gnu"] {
                entry.mtime = String::new();
            }
        }
        guest.is_sound();
        let mount = Mount::of_image(&guest.at("disk.img"), "ro").unwrap();
        let mut found = comparable(Tree::of_directory(mount.path()).unwrap());
        mount.unmount().unwrap();
        if format == ["--format=gnu"] {
            found
                .entries
                .iter_mut()
                .for_each(|entry| entry.mtime = String::new());
        }
        let differences = comparable(expected).differences(&found);
        assert!(differences.is_empty(), "{format:?}: {differences:#?}");
    }
}

/// Makes an archive of members: name, type, and contents or link target.
fn archive(members: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind, text) in members {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        // The crate refuses such names, which this test is about.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        let contents: &[u8] = if *kind == tar::EntryType::Regular {
            text.as_bytes()
        } else {
            let link = &mut header.as_gnu_mut().unwrap().linkname;
            link[..text.len()].copy_from_slice(text.as_bytes());
            b""
        };
        header.set_size(contents.len() as u64);
        header.set_cksum();
        builder.append(&header, contents).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn tar_in_stays_below_its_directory() {
    use tar::EntryType::{Link, Regular, Symlink};
    let Some(guest) = Guest::new() else { return };
    guest.all(&[
        "mkdir disk.img:/etc /srv /srv/in",
        "touch disk.img:/etc/passwd",
    ]);
    guest.all(&["ln -s ../../etc disk.img:/srv/in/there"]);
    let bytes = archive(&[
        ("ok", Regular, "1"),
        ("../../etc/passwd", Regular, "bad"),
        ("/etc/passwd", Regular, "bad"),
        ("there/passwd", Regular, "bad"),
        ("up", Symlink, "../.."),
        ("up/etc/passwd", Regular, "bad"),
        ("abs", Symlink, "/etc"),
        ("abs/passwd", Regular, "bad"),
        ("hard", Link, "../../etc/passwd"),
        ("hard2", Link, "there/passwd"),
        ("sub/last", Regular, "2"),
    ]);
    let run = guest.with_input(&["tar-in", "disk.img:/srv/in"], &bytes);
    let (code, stderr) = run.failure();
    assert_eq!(code, 6, "{stderr}");
    assert_eq!(stderr.lines().count(), 7, "{stderr}");
    assert_eq!(guest.cat("/etc/passwd"), "");
    assert_eq!(guest.cat("/srv/in/ok"), "1");
    assert_eq!(guest.cat("/srv/in/sub/last"), "2");
    assert_eq!(guest.names("/etc"), ["passwd"]);
    // When unpacked at the root, the same links lead to the same place.
    let bytes = archive(&[("abs", Symlink, "/etc"), ("abs/hosts", Regular, "x")]);
    guest.with_input(&["tar-in", "disk.img:/"], &bytes).bytes();
    assert_eq!(guest.cat("/etc/hosts"), "x");
    for (broken, code) in [
        (&bytes[..600], 5),
        (&b"no archive"[..], 5),
        (&[0x28; 600], 5),
    ] {
        let run = guest.with_input(&["tar-in", "disk.img:/"], broken);
        assert_eq!(run.failure().0, code, "{}", run.stderr());
    }
    guest.is_sound();
}

/// A pipe that stays open after the end of the archive, as GNU tar allows it: nothing waits for it.
#[test]
fn tar_in_ends_with_the_archive() {
    let Some(guest) = Guest::new() else { return };
    let bytes = archive(&[("a", tar::EntryType::Regular, "1")]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&bytes).unwrap();
    let status = Command::new(DISKFS)
        .args(["tar-in", "disk.img:/"])
        .current_dir(guest.at("."))
        .stdin(reader)
        .status();
    assert!(status.unwrap().success());
    drop(writer);
    assert_eq!(guest.cat("/a"), "1");
}

#[test]
fn tar_in_says_that_the_archive_is_damaged() {
    let Some(guest) = Guest::new() else { return };
    let text = "some text ".repeat(1000);
    let bytes = archive(&[
        ("a", tar::EntryType::Regular, "1"),
        ("b", tar::EntryType::Regular, &text),
    ]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packed.write_all(&bytes).unwrap();
    let packed = packed.finish().unwrap();
    let contents = fs::read(guest.at("disk.img")).unwrap();
    for (cut, reason) in [
        (
            &b"hello"[..],
            "not a tar archive, or a damaged one: it is shorter than a header",
        ),
        (&bytes[..5000], "the archive is truncated"),
        (&packed[..5000], "damaged compressed data"),
        (&packed[..12], "damaged compressed data"),
    ] {
        fs::write(guest.at("cut"), cut).unwrap();
        let run = guest.diskfs(&["tar-in", "-f", "cut", "disk.img:/"]);
        let (code, stderr) = run.failure();
        assert_eq!(code, 5, "{stderr}");
        assert!(
            stderr.starts_with(&format!("diskfs: cut: {reason}")),
            "{stderr}"
        );
        assert_eq!(guest.names("/"), ["lost+found"]);
    }
    let mut builder = tar::Builder::new(Vec::new());
    let sparse = [
        ("major", "1"),
        ("minor", "0"),
        ("name", "s"),
        ("realsize", "9999"),
    ];
    let sparse = sparse.map(|(name, value)| (format!("GNU.sparse.{name}"), value.as_bytes()));
    let records = sparse.iter().map(|(name, value)| (&**name, *value));
    builder.append_pax_extensions(records).unwrap();
    let map = "1\n0\n9999\n";
    let stored = map.to_owned() + &"\0".repeat(512 - map.len()) + "too short";
    let member = archive(&[("s", tar::EntryType::Regular, &stored)]);
    let bytes = [&**builder.get_ref(), &member].concat();
    let run = guest.with_input(&["tar-in", "disk.img:/"], &bytes);
    let (code, stderr) = run.failure();
    assert_eq!(code, 5, "{stderr}");
    assert!(
        stderr.contains("the map of the sparse file is longer"),
        "{stderr}"
    );
    // Before the image is opened.
    fs::write(guest.at("disk.img"), &contents).unwrap();
    fs::write(guest.at("cut"), &packed[..12]).unwrap();
    guest
        .diskfs(&["tar-in", "-f", "cut", "disk.img:/"])
        .failure();
    assert!(fs::read(guest.at("disk.img")).unwrap() == contents);
}

#[test]
fn cp_into_goes_where_it_is_told_to() {
    let Some(guest) = Guest::new() else { return };
    fs::create_dir_all(guest.at("tree/sub")).unwrap();
    fs::write(guest.at("tree/sub/f"), "f").unwrap();
    fs::write(guest.at("a"), "a").unwrap();
    fs::write(guest.at("b"), "b").unwrap();
    symlink("a", guest.at("to-a")).unwrap();
    guest.all(&[
        "mkdir disk.img:/dir",
        "cp a b disk.img:/dir",
        "cp a disk.img:/renamed",
        "cp to-a disk.img:/followed",
        "cp -r to-a disk.img:/link",
        "cp -r tree disk.img:/dir",
        "cp -r tree disk.img:/new",
        "cp -r tree/. disk.img:/contents-of",
        "cp -rT tree disk.img:/dir",
        "ln -s renamed disk.img:/through",
        "cp b disk.img:/through",
    ]);
    assert_eq!(guest.cat("/dir/b"), "b");
    assert_eq!(guest.cat("/dir/tree/sub/f"), "f");
    assert_eq!(guest.cat("/dir/sub/f"), "f");
    assert_eq!(guest.cat("/new/sub/f"), "f");
    assert_eq!(guest.cat("/contents-of/sub/f"), "f");
    assert_eq!(guest.cat("/renamed"), "b", "written through the symlink");
    assert_eq!(guest.cat("/followed"), "a");
    let link = guest
        .diskfs(&["find", "disk.img:/link", "-printf", "%y %l\\n"])
        .text();
    assert_eq!(link, "l a\n");
    let stat = guest.stat("/dir/a");
    assert_eq!((stat.0.as_str(), stat.1, stat.2), ("0644", 0, 0));
    let json = guest
        .diskfs(&["cp", "--json", "-r", "tree", "disk.img:/json"])
        .json();
    assert_eq!(
        (&json["files"], &json["copied_bytes"]),
        (&3.into(), &1.into())
    );
    assert_eq!(json["changes"].as_array().unwrap().len(), 3);
    for (words, code, message) in [
        (&["cp", "tree", "disk.img:/x"][..], 1, "give -r"),
        (&["cp", "a", "b", "disk.img:/renamed"], 1, "not a directory"),
        (
            &["cp", "a", "disk.img:/none/x"],
            3,
            "mkdir -p disk.img:/none",
        ),
        (&["cp", "none", "disk.img:/x"], 3, "none"),
        (&["cp", "-n", "a", "disk.img:/renamed"], 1, "exists"),
        (&["cp", "disk.img", "disk.img:/x"], 2, "into itself"),
        (&["cp", "a", "disk.img:/new/"], 0, ""),
        (&["cp", "a", "disk.img:/other/"], 3, ""),
        (
            &["cp", "-r", "tree", "disk.img:/renamed"],
            1,
            "not a directory",
        ),
    ] {
        let run = guest.diskfs(words);
        assert_eq!(run.code(), Some(code), "{words:?}: {}", run.stderr());
        assert!(
            run.stderr().contains(message),
            "{words:?}: {}",
            run.stderr()
        );
    }
    guest.is_sound();
}

#[test]
fn overlays_and_dry_runs_leave_the_image_alone() {
    let Some(guest) = Guest::new() else { return };
    guest.with_input(&["write", "disk.img:/f"], b"old").bytes();
    let before = fs::read(guest.at("disk.img")).unwrap();
    let dry = guest
        .diskfs(&["mv", "--dry-run", "disk.img:/f", "/g"])
        .text();
    assert!(dry.starts_with("/f: renamed to /g\n"), "{dry}");
    assert!(dry.contains("1 files, "), "{dry}");
    let dry = guest.diskfs(&["rm", "-r", "--dry-run", "--json", "disk.img:/lost+found"]);
    let dry = dry.json();
    assert_eq!(dry["dry_run"], true);
    assert!(dry["changed_bytes"].as_u64().unwrap() > 0);
    assert_eq!(text_of(&dry["changes"][0]["path"]), "/lost+found");
    guest
        .with_input(&["write", "--overlay", "o.qcow2", "disk.img:/f"], b"new")
        .bytes();
    guest.all(&["mkdir --overlay o.qcow2 disk.img:/d"]);
    assert_eq!(guest.diskfs(&["cat", "o.qcow2:/f"]).text(), "new");
    let names = guest.diskfs(&["ls", "o.qcow2:/"]).text();
    assert_eq!(names, "d\nf\nlost+found\n");
    assert_eq!(fs::read(guest.at("disk.img")).unwrap(), before);
    fs::copy(guest.at("disk.img"), guest.at("other.img")).unwrap();
    for (words, code, message) in [
        (
            &["rm", "--overlay", "o.qcow2", "other.img:/f"][..],
            2,
            "is an overlay of",
        ),
        (
            &["rm", "--overlay", "other.img", "disk.img:/f"],
            5,
            "an overlay that diskfs has created",
        ),
        (
            &["rm", "--overlay", "new.qcow2", "none.img:/f"],
            3,
            "none.img",
        ),
        (
            &["rm", "--overlay", "n.qcow2", "--dry-run", "disk.img:/f"],
            2,
            "",
        ),
    ] {
        let (found, stderr) = guest.diskfs(words).failure();
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
    assert!(!guest.at("new.qcow2").exists());
    if require("qemu-img").is_some() {
        let overlay = guest.at("o.qcow2");
        let status = Command::new("qemu-img")
            .args(["check", "-q"])
            .arg(overlay)
            .status();
        assert!(status.unwrap().success());
    }
}

#[test]
fn what_cant_be_written_is_refused_before_the_first_byte() {
    let Some(guest) = Guest::new() else { return };
    let before = fs::read(guest.at("disk.img")).unwrap();
    let reader = Image::open(&guest.at("disk.img"), &OpenOptions::default()).unwrap();
    let (code, stderr) = guest.diskfs(&["touch", "disk.img:/f"]).failure();
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("overlay"), "{stderr}");
    drop(reader);
    for (words, code, message) in [
        (&["touch", "disk.img"][..], 2, "missing path"),
        (
            &["touch", "--force-share", "disk.img:/f"],
            2,
            "--force-share",
        ),
        (&["touch", "disk.img,snapshot=a:/f"], 1, "read-only"),
        (&["touch", "-p", "7", "disk.img:/f"], 3, "no such volume"),
        (&["rm", "disk.img:/"], 1, "is a directory"),
        (&["rm", "-r", "disk.img:/"], 2, "does not end in a name"),
        (&["rm", "disk.img:/none"], 3, "no such file"),
        (
            &["mkdir", "disk.img:/lost+found"],
            1,
            "lost+found: the name is taken\n",
        ),
        (
            &["mv", "disk.img:/lost+found", "disk.img:/lost+found/x"],
            2,
            "",
        ),
        (&["ln", "disk.img:/lost+found", "disk.img:/x"], 6, ""),
        (
            &["xattr", "get", "user.none", "disk.img:/"],
            1,
            "no such attribute",
        ),
    ] {
        let (found, stderr) = guest.diskfs(words).failure();
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
    guest.is_sound();
    let len = |bytes: &[u8]| bytes.len();
    assert_eq!(len(&before), len(&fs::read(guest.at("disk.img")).unwrap()));
}

#[test]
fn writes_reach_a_partition_in_qcow2() {
    let demo = image("demo.qcow2");
    let words = ["mkdir", "demo.qcow2:/srv/new"];
    diskfs_in(demo.directory(), &words).bytes();
    let mut write = Command::new(DISKFS)
        .args(["write", "demo.qcow2:/etc/hostname"])
        .current_dir(demo.directory())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(write.stdin.as_mut().unwrap(), b"changed\n").unwrap();
    assert!(write.wait().unwrap().success());
    let hostname = diskfs_in(demo.directory(), &["cat", "demo.qcow2:/etc/hostname"]);
    assert_eq!(hostname.text(), "changed\n");
    if require("qemu-img").is_some() {
        let status = Command::new("qemu-img")
            .args(["check", "-q"])
            .arg(demo.path())
            .status();
        assert!(status.unwrap().success());
    }
}

#[test]
fn a_command_that_fails_leaves_every_byte_of_the_image() {
    let Some(guest) = Guest::new() else { return };
    guest.all(&["mkdir disk.img:/dir", "truncate -s 1 disk.img:/file"]);
    let converted = guest.diskfs(&["convert", "disk.img", "disk.qcow2"]);
    assert_eq!(converted.code(), Some(0), "{}", converted.stderr());
    fs::write(guest.at("host"), "contents").unwrap();
    let bytes = || ["disk.img", "disk.qcow2"].map(|name| fs::read(guest.at(name)).unwrap());
    let before = bytes();
    for image in ["disk.img", "disk.qcow2"] {
        for (code, command) in [
            (3, "rm IMG:/none"),
            (1, "rm IMG:/dir"),
            (1, "mkdir IMG:/dir"),
            (3, "mkdir IMG:/none/dir"),
            (3, "mv IMG:/none IMG:/other"),
            (6, "ln IMG:/dir IMG:/link"),
            (3, "chmod 600 IMG:/none"),
            (3, "chown 1:1 IMG:/none"),
            (3, "touch IMG:/none/file"),
            (3, "xattr set user.a 1 IMG:/none"),
            (3, "cp host IMG:/none/file"),
            (5, "tar-in -f host IMG:/"),
            (3, "write IMG:/none/file"),
        ] {
            let command = command.replace("IMG", image);
            let words: Vec<&str> = command.split(' ').collect();
            let (failed, stderr) = guest.diskfs(&words).failure();
            assert_eq!(failed, code, "{command}: {stderr}");
            assert!(bytes() == before, "{command}: {stderr}");
        }
    }
}
