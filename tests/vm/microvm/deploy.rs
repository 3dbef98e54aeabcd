//! Plans that are deployed to guests whose filesystems only a kernel can write.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use diskfs_fixtures::{Entry, Mount, Tree, Workshop, pattern, require_root, run, sha256_hex};

use super::{appliance, check, command, require_all, stderr};

const PLAN: &str = r#"steps:
- hostname: web1
- hosts: [{address: 127.0.1.1, names: [web1]}]
- user: {name: ann, password: {hash: "$6$saltsalt$abcdefghijkl"}, uid: 1234, sudo: nopasswd, ssh-keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL ann"]}
- root-password: secret
- write: {path: /etc/motd, text: "Welcome\n", mode: 0640, owner: "root:staff"}
- upload: {from: LARGE, to: /opt/large, mode: 0600}
- permissions: {path: /etc/secret, mode: 0600, owner: "7:8"}
- delete: /var/cache/app
- selinux: {mode: permissive}
"#;

/// The files after the plan: path, mode, owner, and contents, if those are short.
const DONE: [(&str, &str, u32, u32, Option<&str>); 12] = [
    ("etc/hostname", "644", 0, 0, Some("web1\n")),
    (
        "etc/hosts",
        "644",
        0,
        0,
        Some("127.0.0.1 localhost\n127.0.1.1\tweb1\n"),
    ),
    ("etc/motd", "640", 0, 50, Some("Welcome\n")),
    (
        "etc/passwd",
        "644",
        0,
        0,
        Some("root:x:0:0:root:/root:/bin/bash\nann:x:1234:1234::/home/ann:/bin/sh\n"),
    ),
    ("etc/secret", "600", 7, 8, Some("secret\n")),
    ("etc/shadow", "640", 0, 42, None),
    (
        "etc/sudoers.d/90-ann",
        "440",
        0,
        0,
        Some("ann ALL=(ALL:ALL) NOPASSWD: ALL\n"),
    ),
    ("home/ann", "700", 1234, 1234, None),
    ("home/ann/.profile", "644", 1234, 1234, Some("umask 022\n")),
    ("home/ann/.ssh", "700", 1234, 1234, None),
    ("home/ann/.ssh/authorized_keys", "600", 1234, 1234, None),
    ("opt/large", "600", 0, 0, None),
];

/// Other paths that the plan changes: directories, and files of users that have more lines.
const ALSO: [&str; 10] = [
    "etc",
    "etc/group",
    "etc/selinux/config",
    "etc/sudoers.d",
    "home",
    "opt",
    "var/cache",
    "var/cache/app",
    "var/cache/app/one",
    "etc/subuid",
];

#[test]
fn a_plan_on_xfs() {
    deployed("mkfs.xfs", &["-q"], &["xfs_repair", "-n"]);
}

#[test]
fn a_plan_on_btrfs() {
    deployed("mkfs.btrfs", &["-q"], &["btrfs", "check"]);
}

/// Checks that the changes of a plan are computed without a microVM and without a change.
fn shows_changes_without_a_machine(image: &Path, plan: &Path) {
    let before = fs::read(image).unwrap();
    let words = [
        "deploy".as_ref(),
        "--dry-run".as_ref(),
        image.as_os_str(),
        "--plan".as_ref(),
        plan.as_os_str(),
    ];
    let output = command(Path::new("/nonexistent"), words)
        .env_remove("DISKFS_DRIVER")
        .env("DISKFS_VM", "none")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("+web1"), "{shown}");
    assert!(fs::read(image).unwrap() == before, "the image has changed");
}

fn deployed(mkfs: &str, options: &[&str], checker: &[&str]) {
    let Some(appliance) = appliance() else { return };
    let (Some(()), Some(())) = (require_all(&[mkfs, checker[0], "setfattr"]), require_root())
    else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
    let words = options.iter().map(Path::new);
    run(mkfs, words.chain([image.as_path()])).unwrap();
    on_mount(&image, "loop", fill);
    let before = on_mount(&image, "loop,ro", |root| Tree::of_directory(root).unwrap());
    let large = shop.path("large");
    fs::write(&large, pattern("large", 3_000_001)).unwrap();
    let plan = shop.path("plan.yaml");
    fs::write(&plan, PLAN.replace("LARGE", large.to_str().unwrap())).unwrap();
    let deploy = || {
        let words = [
            "deploy".as_ref(),
            image.as_os_str(),
            "--plan".as_ref(),
            plan.as_os_str(),
        ];
        // Only the commit needs a microVM.
        let output = command(&appliance, words)
            .env_remove("DISKFS_DRIVER")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    shows_changes_without_a_machine(&image, &plan);
    deploy();
    check(checker[0], &checker[1..], &image);
    on_mount(&image, "loop,ro", |root| {
        let after = Tree::of_directory(root).unwrap();
        is_done(root, &after);
        assert_eq!(
            fs::read(root.join("opt/large")).unwrap(),
            fs::read(&large).unwrap()
        );
        the_rest_is_as_it_was(&before, &after);
    });
    let once = sha256_hex(&fs::read(&image).unwrap());
    let told = deploy();
    assert_eq!(told.matches(": nothing to do\n").count(), 9, "{told}");
    assert_eq!(
        sha256_hex(&fs::read(&image).unwrap()),
        once,
        "written again"
    );
}

pub(super) fn on_mount<T>(image: &Path, options: &str, work: impl FnOnce(&Path) -> T) -> T {
    let words = [Path::new("-o"), Path::new(options), image];
    let mount = Mount::by("mount", words).unwrap();
    let done = work(mount.path());
    mount.unmount().unwrap();
    done
}

pub(super) fn fill(root: &Path) {
    for (path, text, mode) in [
        ("usr/lib/os-release", "ID=debian\nVERSION_ID=12\n", 0o644),
        ("usr/lib/systemd/systemd", "ELF", 0o755),
        ("etc/hostname", "old\n", 0o644),
        ("etc/hosts", "127.0.0.1 localhost\n", 0o644),
        ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n", 0o644),
        ("etc/shadow", "root:*:19000:0:99999:7:::\n", 0o640),
        ("etc/group", "root:x:0:\nstaff:x:50:\nshadow:x:42:\n", 0o644),
        ("etc/secret", "secret\n", 0o644),
        ("etc/fstab", "", 0o644),
        ("etc/login.defs", "HOME_MODE 0700\n", 0o644),
        ("etc/skel/.profile", "umask 022\n", 0o644),
        ("etc/sudoers.d/README", "", 0o440),
        (
            "etc/selinux/config",
            "SELINUX=enforcing\nSELINUXTYPE=targeted\n",
            0o644,
        ),
        (
            "etc/selinux/targeted/contexts/files/file_contexts",
            "/.*\tu:object_r:default_t:s0\n",
            0o644,
        ),
        ("home/.keep", "", 0o644),
        ("opt/.keep", "", 0o644),
        ("var/cache/app/one", "1", 0o644),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    symlink("../usr/lib/os-release", root.join("etc/os-release")).unwrap();
    chown(root.join("etc/shadow"), Some(0), Some(42)).unwrap();
    for (name, file) in [
        ("security.selinux", "etc/shadow"),
        ("user.mine", "etc/hosts"),
    ] {
        let words = ["-n", name, "-v", "u:object_r:mine_t:s0"].map(Path::new);
        run(
            "setfattr",
            words.into_iter().chain([root.join(file).as_path()]),
        )
        .unwrap();
    }
}

fn is_done(root: &Path, after: &Tree) {
    for (path, mode, uid, gid, text) in DONE {
        let entry = after
            .entry(path)
            .unwrap_or_else(|| panic!("{path} is missing"));
        let of_plan = (mode, uid, gid);
        assert_eq!((&*entry.mode, entry.uid, entry.gid), of_plan, "{path}");
        if let Some(text) = text {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap(), text, "{path}");
        }
    }
    assert!(after.entry("var/cache/app").is_none());
    let label = |path: &str| {
        after
            .entry(path)
            .unwrap()
            .xattrs
            .get("security.selinux")
            .cloned()
    };
    // New files have the label of the guest's policy; existing files keep theirs.
    let made = label("opt/large");
    assert!(made.is_some() && made == label("home/ann/.profile"));
    assert_ne!(label("etc/shadow"), made);
    assert!(
        after
            .entry("etc/hosts")
            .unwrap()
            .xattrs
            .contains_key("user.mine")
    );
}

/// Checks that nothing else has changed: inode, mode, owner, times, attributes, contents.
fn the_rest_is_as_it_was(before: &Tree, after: &Tree) {
    let is_of_plan = |entry: &Entry| {
        DONE.iter().any(|(path, ..)| *path == entry.path) || ALSO.contains(&&*entry.path)
    };
    let others = |tree: &Tree| {
        let mut tree = tree.clone();
        tree.statfs = None;
        tree.entries.retain(|entry| !is_of_plan(entry));
        tree
    };
    let (before, after) = (others(before), others(after));
    assert_eq!(before.differences(&after), Vec::<String>::new());
}
