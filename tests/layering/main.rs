//! The layers of crates and modules: the tables below, compared with `cargo metadata` and the
//! sources.

mod circles;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Each member, and the members that it may use besides itself. Everything else is forbidden.
const MAY_USE: &[(&str, &[&str])] = &[
    ("diskfs-block", &[]),
    ("diskfs-vfs", &[]),
    // Image formats that are only read: each a map, which the image crate opens and reads.
    ("diskfs-dmg", &["diskfs-block"]),
    ("diskfs-parallels", &["diskfs-block"]),
    // Compressed streams, and disks in them.
    ("diskfs-compressed", &["diskfs-block"]),
    ("diskfs-qcow", &["diskfs-block"]),
    ("diskfs-qed", &["diskfs-block"]),
    ("diskfs-vdi", &["diskfs-block"]),
    ("diskfs-vhd", &["diskfs-block"]),
    ("diskfs-vhdx", &["diskfs-block"]),
    (
        "diskfs-image",
        &[
            "diskfs-block",
            "diskfs-compressed",
            "diskfs-dmg",
            "diskfs-oci",
            "diskfs-ova",
            "diskfs-parallels",
            "diskfs-qcow",
            "diskfs-qed",
            "diskfs-vdi",
            "diskfs-vhd",
            "diskfs-vhdx",
            "diskfs-vmdk",
        ],
    ),
    ("diskfs-luks", &["diskfs-block"]),
    // Disks in the images of containers: documents and files, without the layers' compressions.
    ("diskfs-oci", &["diskfs-block"]),
    ("diskfs-ova", &["diskfs-block"]),
    ("diskfs-vmdk", &["diskfs-block"]),
    ("diskfs-volume", &["diskfs-block"]),
    // Files of guests that have a format of their own.
    ("diskfs-journal", &["diskfs-block"]),
    ("diskfs-btrfs", &["diskfs-vfs", "diskfs-block"]),
    ("diskfs-ext4", &["diskfs-vfs", "diskfs-block"]),
    // The common parts of FAT and exFAT.
    ("diskfs-clusters", &["diskfs-vfs", "diskfs-block"]),
    (
        "diskfs-exfat",
        &["diskfs-vfs", "diskfs-block", "diskfs-clusters"],
    ),
    (
        "diskfs-fat",
        &["diskfs-vfs", "diskfs-block", "diskfs-clusters"],
    ),
    ("diskfs-iso9660", &["diskfs-vfs", "diskfs-block"]),
    ("diskfs-xfs", &["diskfs-vfs", "diskfs-block"]),
    ("diskfs-squashfs", &["diskfs-vfs", "diskfs-block"]),
    ("diskfs-erofs", &["diskfs-vfs", "diskfs-block"]),
    ("diskfs-registry", &["diskfs-block"]),
    // The client of a filesystem that another process serves, and the server.
    ("diskfs-remote", &["diskfs-vfs"]),
    ("diskfs-agent", &["diskfs-remote", "diskfs-vfs"]),
    // A file of a guest, on any filesystem.
    ("diskfs-rpm", &["diskfs-block"]),
    // Text files of a guest, as texts.
    ("diskfs-etc", &[]),
    ("diskfs-selinux", &[]),
    // The variables of a machine's firmware.
    ("diskfs-varstore", &["diskfs-block"]),
    // The disk: it combines the drivers, and the guest's tree. It alone knows the drivers.
    (
        "diskfs-disk",
        &[
            "diskfs-block",
            "diskfs-vfs",
            "diskfs-image",
            "diskfs-luks",
            "diskfs-volume",
            "diskfs-btrfs",
            "diskfs-erofs",
            "diskfs-exfat",
            "diskfs-ext4",
            "diskfs-fat",
            "diskfs-iso9660",
            "diskfs-squashfs",
            "diskfs-xfs",
            "diskfs-etc",
        ],
    ),
    // Reports of a guest's contents, and changes of a guest: only through its files.
    (
        "diskfs-archive",
        &["diskfs-compressed", "diskfs-disk", "diskfs-vfs"],
    ),
    (
        "diskfs-inspect",
        &[
            "diskfs-archive",
            "diskfs-disk",
            "diskfs-vfs",
            "diskfs-block",
            "diskfs-etc",
            "diskfs-journal",
            "diskfs-registry",
            "diskfs-rpm",
        ],
    ),
    (
        "diskfs-logs",
        &[
            "diskfs-archive",
            "diskfs-disk",
            "diskfs-inspect", // the guest's time zone
            "diskfs-vfs",
            "diskfs-block",
            "diskfs-journal",
        ],
    ),
    (
        "diskfs-deploy",
        &[
            "diskfs-archive",
            "diskfs-disk",
            "diskfs-inspect", // the guest's own addresses
            "diskfs-vfs",
            "diskfs-etc",
            "diskfs-selinux",
        ],
    ),
    // Whole images: it makes everything that the layers below can make, and fills it.
    (
        "diskfs-build",
        &[
            "diskfs-archive",
            "diskfs-block",
            "diskfs-deploy",
            "diskfs-disk",
            "diskfs-image",
            "diskfs-luks",
            "diskfs-vfs",
            "diskfs-volume",
        ],
    ),
    // Exports know only their trait, and the errors of the disk.
    (
        "diskfs-export",
        &["diskfs-disk", "diskfs-vfs", "diskfs-block"],
    ),
    // NBD knows nothing of images: it serves any device, and is one.
    ("diskfs-nbd", &["diskfs-block"]),
    // A page, and the commands that answer it, which are child processes.
    ("diskfs-browse", &[]),
    ("diskfs-http", &["diskfs-block"]),
    // Registries speak of digests, as OCI images do.
    ("diskfs-objects", &["diskfs-block", "diskfs-oci"]),
    // The confinement of processes, and the files that they get: only their images.
    ("diskfs-sandbox", &["diskfs-block", "diskfs-image"]),
    (
        "diskfs-service",
        &[
            "diskfs-block",
            "diskfs-deploy",
            "diskfs-disk",
            "diskfs-image", // gates
            "diskfs-inspect",
            "diskfs-luks",    // keys
            "diskfs-sandbox", // workers
            "diskfs-varstore",
            "diskfs-vfs",
            "diskfs-vm",
            "diskfs-volume", // editing partitions
        ],
    ),
    (
        "diskfs-vm",
        &[
            "diskfs-archive",
            "diskfs-disk",
            "diskfs-export",
            "diskfs-remote",
            "diskfs-sandbox",
            "diskfs-vfs",
            "diskfs-block",
        ],
    ),
    // The facade, and the program.
    (
        "diskfs",
        &[
            "diskfs-archive",
            "diskfs-block",
            "diskfs-build",
            "diskfs-deploy",
            "diskfs-disk",
            "diskfs-etc",
            "diskfs-export",
            "diskfs-browse",
            "diskfs-http",
            "diskfs-image",
            "diskfs-inspect",
            "diskfs-iso9660",
            "diskfs-logs",
            "diskfs-luks",
            "diskfs-nbd",
            "diskfs-objects",
            "diskfs-oci",
            "diskfs-sandbox",
            "diskfs-service",
            "diskfs-varstore",
            "diskfs-vfs",
            "diskfs-vm",
            "diskfs-volume",
        ],
    ),
    // The bindings for other languages, over the facade.
    ("diskfs-session", &["diskfs"]),
    ("diskfs-c", &["diskfs", "diskfs-session"]),
    ("diskfs-python", &["diskfs", "diskfs-session"]),
    // These are for tests and measurements only, and nothing depends on them.
    ("diskfs-fixtures", &["diskfs-vfs", "diskfs-block"]),
    (
        "diskfs-crash",
        &[
            "diskfs",
            "diskfs-block",
            "diskfs-vfs",
            "diskfs-image",
            "diskfs-ext4",
            "diskfs-fixtures",
        ],
    ),
    (
        "diskfs-fuzz",
        &[
            "diskfs",
            "diskfs-block",
            "diskfs-vfs",
            "diskfs-image",
            "diskfs-journal",
            "diskfs-luks",
            "diskfs-nbd",
            "diskfs-oci",
            "diskfs-ova",
            "diskfs-volume",
            "diskfs-erofs",
            "diskfs-etc",
            "diskfs-btrfs",
            "diskfs-exfat",
            "diskfs-ext4",
            "diskfs-fat",
            "diskfs-iso9660",
            "diskfs-registry",
            "diskfs-remote",
            "diskfs-rpm",
            "diskfs-selinux",
            "diskfs-service",
            "diskfs-squashfs",
            "diskfs-varstore",
            "diskfs-compressed",
            "diskfs-vdi",
            "diskfs-vhd",
            "diskfs-vhdx",
            "diskfs-vmdk",
            "diskfs-xfs",
        ],
    ),
    (
        "diskfs-benches",
        &[
            "diskfs",
            "diskfs-block",
            "diskfs-vfs",
            "diskfs-image",
            "diskfs-luks",
            "diskfs-volume",
            "diskfs-ext4",
            "diskfs-fixtures",
        ],
    ),
];

/// Parts of crates, and the crates of the workspace that their sources may name: a crate as a whole
/// may use more than each of its parts.
const SOURCES_MAY_USE: &[(&str, &[&str])] = &[
    ("export/src/fuse", &["diskfs_vfs", "diskfs_disk"]),
    ("export/src/vhost_user", &["diskfs_block", "diskfs_disk"]),
    ("export/src/vhost_user/device", &[]),
    ("vm/src/console", &["diskfs_disk", "diskfs_export"]),
];

/// The dependencies of the members among themselves: the member, and whether it is used for tests
/// only.
type Uses = BTreeMap<String, Vec<(String, bool)>>;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("start cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn uses(metadata: &Value) -> Uses {
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |value: &Value| {
        value["name"]
            .as_str()
            .expect("the entry has a name")
            .to_owned()
    };
    let members: Vec<_> = packages.iter().map(name).collect();
    let dependencies = |package: &Value| {
        let all = package["dependencies"].as_array().expect("dependencies");
        all.iter()
            .filter(|dependency| members.contains(&name(dependency)))
            .map(|dependency| (name(dependency), dependency["kind"] == "dev"))
            .collect()
    };
    packages
        .iter()
        .map(|package| (name(package), dependencies(package)))
        .collect()
}

/// Returns the violations of the table, one line for each.
fn violations(uses: &Uses, may_use: &[(&str, &[&str])]) -> Vec<String> {
    let mut lines = Vec::new();
    for (member, used) in uses {
        let Some((_, allowed)) = may_use.iter().find(|(name, _)| name == member) else {
            lines.push(format!("{member} is not in the table"));
            continue;
        };
        for (other, for_tests) in used {
            // Tests may use the fixtures, and everything that they compare with.
            if !for_tests && other != member && !allowed.contains(&other.as_str()) {
                lines.push(format!("{member} uses {other}"));
            }
        }
    }
    for (name, _) in may_use {
        if !uses.contains_key(*name) {
            lines.push(format!("{name} is in the table, but is not a member"));
        }
    }
    lines
}

/// Returns the Rust files that a part consists of: `x.rs` and all files below `x/`.
fn sources(part: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let file = part.with_extension("rs");
    if file.is_file() {
        files.push(file);
    }
    if part.is_dir() {
        for entry in fs::read_dir(part).expect("create the directory") {
            let path = entry.expect("read the entry").path();
            if path.is_dir() {
                files.extend(sources(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// Returns the members' names as in sources, without the facade: that is the program's name, too.
fn member_names() -> Vec<String> {
    let members = MAY_USE.iter().map(|(name, _)| name.replace('-', "_"));
    members.filter(|name| name != "diskfs").collect()
}

/// Returns the forbidden names that `text` uses outside of its comments.
fn forbidden_names(text: &str, allowed: &[&str], names: &[String]) -> Vec<String> {
    let code: Vec<_> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let names = names
        .iter()
        .filter(|name| !allowed.contains(&name.as_str()));
    names
        .filter(|name| code.iter().any(|line| mentions(line, name)))
        .cloned()
        .collect()
}

/// Returns true if the line has `name` as a whole path, not as the start of a longer word.
fn mentions(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let after = line[at + name.len()..].chars().next();
        !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[test]
fn members_use_only_what_the_table_allows() {
    let broken = violations(&uses(&metadata()), MAY_USE);
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn parts_use_only_what_the_table_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = member_names();
    for (part, allowed) in SOURCES_MAY_USE {
        let files = sources(&root.join(part));
        assert!(!files.is_empty(), "{part} has no sources");
        for file in files {
            let text = fs::read_to_string(&file).expect("read the source");
            let found = forbidden_names(&text, allowed, &names);
            assert!(found.is_empty(), "{} uses {found:?}", file.display());
        }
    }
}

#[test]
fn the_drivers_are_known_to_the_stack_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("disk/src");
    let stack = root.join("stack");
    let drivers = [
        "btrfs", "erofs", "exfat", "ext4", "fat", "iso9660", "squashfs", "xfs",
    ]
    .map(|driver| format!("diskfs_{driver}"));
    for file in sources(&root) {
        if file == stack.with_extension("rs") || file.starts_with(&stack) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("read the source");
        let found = forbidden_names(&text, &[], &drivers);
        assert!(found.is_empty(), "{} uses {found:?}", file.display());
    }
}

#[test]
fn the_check_tells_what_breaks_the_table() {
    let table: &[(&str, &[&str])] = &[
        ("ext4", &["vfs"]),
        ("fat", &["vfs"]),
        ("vfs", &[]),
        ("gone", &[]),
    ];
    let uses: Uses = [
        (
            "ext4",
            vec![("vfs", false), ("fat", false), ("fixtures", true)],
        ),
        ("fat", vec![("ext4", true)]),
        ("vfs", vec![("ext4", false)]),
        ("new", vec![]),
    ]
    .into_iter()
    .map(|(name, used)| {
        let used = used.into_iter().map(|(name, dev)| (name.to_owned(), dev));
        (name.to_owned(), used.collect())
    })
    .collect();
    assert_eq!(
        violations(&uses, table),
        [
            "ext4 uses fat",
            "new is not in the table",
            "vfs uses ext4",
            "gone is in the table, but is not a member"
        ]
    );
}

#[test]
fn the_check_reads_names_and_not_comments() {
    let text = "use diskfs_vfs::FsRead; // not diskfs_image\nuse diskfs_block::Slice;";
    let names = member_names();
    assert_eq!(
        forbidden_names(text, &["diskfs_vfs"], &names),
        ["diskfs_block"]
    );
    assert!(forbidden_names("diskfs_block::Slice", &["diskfs_block"], &names).is_empty());
}
