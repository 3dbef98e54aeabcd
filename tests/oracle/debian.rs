//! A whole Debian system by debootstrap, as raw, as qcow2, compressed, and as an overlay, compared
//! with the kernel's mount.
//!
//! The system is built once, into `$DISKFS_CACHE` or `target/diskfs-cache`, from the package source
//! of this machine's apt.

#[cfg(feature = "objects")]
mod over_http;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use diskfs::inspect::{Depth, Report};
use diskfs_fixtures::{
    Mount, Tree, Variant, Workshop, cached, debootstrap, require, require_root, run,
};

use super::{assert_same, filesystem};

/// The size of the disk, which is sparse.
const DISK_BYTES: u64 = 2 << 30;

/// The offset of its only partition: sector 2048.
const ROOT_OFFSET_BYTES: u64 = 1 << 20;

/// The packages besides the essential ones, which give it the size of a cloud image.
const PACKAGES: &str = "ca-certificates,git,locales,man-db,openssh-server,perl,python3,\
    systemd-sysv,vim,zstd";

/// The smallest number of files of a realistic system.
const FILES_MIN: usize = 15_000;

/// The version of the recipe; change it together with the recipe.
const RECIPE: &str = "debian-1";

/// The images, and what the kernel shows of them.
struct Debian {
    directory: PathBuf,
    tree: Tree,
}

/// Returns `None`, with a message, if it can't be built.
fn debian() -> Option<&'static Debian> {
    static DEBIAN: OnceLock<Debian> = OnceLock::new();
    require_root()?;
    require("debootstrap")?;
    require("qemu-img")?;
    require("sgdisk")?;
    Some(DEBIAN.get_or_init(|| open().unwrap_or_else(|error| panic!("{error:#}"))))
}

/// Returns the images from the cache; builds them if they are missing.
fn open() -> Result<Debian> {
    let directory = cached(env!("CARGO_TARGET_TMPDIR"), RECIPE, build)?;
    let tree: Tree = serde_json::from_slice(&fs::read(directory.join("tree.json"))?)?;
    ensure!(
        tree.entries.len() >= FILES_MIN,
        "{} files",
        tree.entries.len()
    );
    Ok(Debian { directory, tree })
}

fn build(directory: &Path) -> Result<()> {
    let disk = directory.join("debian.raw");
    File::create(&disk)?.set_len(DISK_BYTES)?;
    run(
        "sgdisk",
        ["-n".as_ref(), "1:2048:0".as_ref(), disk.as_os_str()],
    )?;
    make_filesystem(&disk)?;
    {
        let mount = mount(&disk, "")?;
        debootstrap(mount.path(), Variant::Minimal, PACKAGES)?;
        mount.unmount()?;
    }
    // The current state is the backing file of the overlay; then the system changes.
    let backing = directory.join("backing.raw");
    run(
        "cp",
        [
            "--sparse=always".as_ref(),
            disk.as_os_str(),
            backing.as_os_str(),
        ],
    )?;
    let mount = mount(&disk, "")?;
    change(mount.path())?;
    mount.unmount()?;
    let tree = Tree::of_directory(self::mount(&disk, "ro")?.path())?;
    fs::write(directory.join("tree.json"), serde_json::to_vec(&tree)?)?;
    convert(directory, "", "plain.qcow2")?;
    convert(directory, "-c -o compression_type=zstd", "zstd.qcow2")?;
    overlay(directory)
}

fn make_filesystem(disk: &Path) -> Result<()> {
    // The GPT's backup takes the last 33 sectors; the filesystem has whole blocks before that.
    let blocks = (DISK_BYTES - ROOT_OFFSET_BYTES) / 4096 - 5;
    let offset = format!("offset={ROOT_OFFSET_BYTES}");
    let options = [
        "-q", "-F", "-t", "ext4", "-b", "4096", "-L", "root", "-E", &offset,
    ];
    let blocks = blocks.to_string();
    let arguments = options
        .iter()
        .map(Path::new)
        .chain([disk, Path::new(&blocks)]);
    run("mke2fs", arguments)?;
    Ok(())
}

fn mount(disk: &Path, options: &str) -> Result<Mount> {
    // dpkg syncs after every file; a crash here only costs another run.
    let options = format!("offset={ROOT_OFFSET_BYTES},noatime,barrier=0,{options}");
    Mount::of_image(disk, &options)
}

/// Makes changes as a running system does: files are removed, created, grown and moved.
fn change(root: &Path) -> Result<()> {
    fs::remove_dir_all(root.join("usr/share/doc"))?;
    fs::write(root.join("etc/hostname"), "changed\n")?;
    fs::rename(root.join("var/log"), root.join("var/log.moved"))?;
    let growing = root.join("usr/bin/git");
    let mut bytes = fs::read(&growing)?;
    bytes.extend(diskfs_fixtures::pattern("grown", 100_000));
    fs::write(&growing, bytes)?;
    for n in 0..200 {
        fs::write(
            root.join(format!("srv/new-{n}")),
            diskfs_fixtures::pattern("new", n * 100),
        )?;
    }
    Ok(())
}

fn convert(directory: &Path, options: &str, name: &str) -> Result<()> {
    let words = "convert -f raw -O qcow2"
        .split(' ')
        .chain(options.split_ascii_whitespace());
    let (disk, image) = (directory.join("debian.raw"), directory.join(name));
    run("qemu-img", words.map(Path::new).chain([&*disk, &*image]))?;
    Ok(())
}

/// Makes the overlay with the differences from the backing file: an empty overlay on the disk,
/// rebased onto the backing file.
fn overlay(directory: &Path) -> Result<()> {
    let image = directory.join("overlay.qcow2");
    for words in [
        "create -f qcow2 -F raw -b debian.raw",
        "rebase -F raw -b backing.raw",
    ] {
        let words = words.split(' ').map(Path::new);
        run("qemu-img", words.chain([&*image]))?;
    }
    let (part, whole) = (
        fs::metadata(&image)?.len(),
        fs::metadata(directory.join("plain.qcow2"))?.len(),
    );
    ensure!(
        part < whole / 2,
        "the overlay holds everything: {part} bytes of {whole}"
    );
    Ok(())
}

fn compare(image: &str) {
    if let Some(debian) = debian() {
        let filesystem = filesystem(&debian.directory.join(image));
        assert_same(image, &debian.tree, &filesystem);
    }
}

/// The kernel copies the system to filesystems that diskfs only reads.
#[test]
fn a_debian_system_on_xfs_and_btrfs_is_as_the_kernel_shows_it() {
    let Some(debian) = debian() else { return };
    for kind in ["xfs", "btrfs"] {
        let program = format!("mkfs.{kind}");
        if require(&program).is_none() {
            return;
        }
        let workshop = Workshop::new().unwrap();
        let image = workshop.sparse_file("image", DISK_BYTES).unwrap();
        run(&program, [Path::new("-q"), &image]).unwrap();
        let mut expected = copied(&debian.directory.join("debian.raw"), &image).unwrap();
        expected.statfs = None; // The device of the mount is read-only, which btrfs subtracts.
        assert_same(kind, &expected, &filesystem(&image));
    }
}

/// Copies the system to another filesystem, and returns the tree that the kernel shows there.
fn copied(disk: &Path, image: &Path) -> Result<Tree> {
    let source = Mount::of_image(disk, &format!("ro,offset={ROOT_OFFSET_BYTES}"))?;
    let target = Mount::of_image(image, "noatime")?;
    let all = source.path().join(".");
    run(
        "cp",
        ["-a".as_ref(), all.as_os_str(), target.path().as_os_str()],
    )?;
    target.unmount()?;
    source.unmount()?;
    Tree::of_directory(Mount::of_image(image, "ro")?.path())
}

#[test]
fn debian_in_raw() {
    compare("debian.raw");
}

#[test]
fn debian_in_qcow2() {
    compare("plain.qcow2");
}

#[test]
fn debian_in_compressed_qcow2() {
    compare("zstd.qcow2");
}

#[test]
fn debian_as_an_overlay() {
    compare("overlay.qcow2");
}

/// The packages agree with the output of dpkg on a copy of its database.
#[test]
fn debian_has_the_packages_that_dpkg_lists() {
    let Some(debian) = debian().filter(|_| require("dpkg-query").is_some()) else {
        return;
    };
    let tree = filesystem(&debian.directory.join("plain.qcow2"));
    let report = Report::of(&tree, Depth::Files);
    assert_eq!(report.problems, []);
    assert_eq!(report.release.distribution.as_deref(), Some("debian"));
    assert_eq!(report.architecture.as_deref(), Some("x86_64"));
    let database = tempfile::tempdir().unwrap();
    let status = tree.read("/var/lib/dpkg/status").unwrap();
    fs::write(database.path().join("status"), status).unwrap();
    let place = format!("--admindir={}", database.path().display());
    let format = "--showformat=${db:Status-Status} ${Package} ${Version} ${Architecture}\n";
    let listed = run("dpkg-query", [&place, "--show", format]).unwrap();
    let mut listed: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .collect();
    listed.sort_unstable();
    let installed = report.packages.installed.unwrap().into_iter();
    let found = installed.map(|it| format!("{} {} {}", it.name, it.version, it.architecture));
    let mut found: Vec<String> = found.collect();
    found.sort_unstable();
    assert!(found.len() > 100);
    assert_eq!(found, listed);
}

/// Prints each fact of an inspection in XML, one per line: the path of its element, and its text.
/// The facts of an application begin with its name.
const FACTS: &str = r#"
import sys, xml.etree.ElementTree as ET
def facts(element, path):
    if element.tag == "icon":
        return
    text = (element.text or "").strip()
    attributes = "".join(f" {k}={v}" for k, v in sorted(element.attrib.items()))
    name = element.findtext("name") if element.tag == "application" else None
    path = f"{path}/{element.tag}{attributes}" + (f"[{name}]" if name else "")
    if text:
        print(path, " ".join(text.split()))
    for child in element:
        facts(child, path)
facts(ET.parse(sys.argv[1]).getroot(), "")
"#;

/// Each fact that virt-inspector reports is reported, with the same value.
#[test]
#[ignore = "takes half a minute in virt-inspector's machine, and needs a kernel in /boot"]
fn debian_is_what_virt_inspector_says() {
    let Some(debian) = debian() else { return };
    let work = tempfile::tempdir().unwrap();
    let image = debian.directory.join("plain.qcow2");
    let facts = |name: &str, program: &str, words: &[&str]| -> BTreeSet<String> {
        let mut command = diskfs_fixtures::command(program);
        let command = command.args(words).arg(&image).envs([
            ("LIBGUESTFS_BACKEND", "direct"),
            ("LIBGUESTFS_BACKEND_SETTINGS", "force_tcg"),
        ]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        let file = work.path().join(name);
        fs::write(&file, output.stdout).unwrap();
        let python = ["-c", FACTS, file.to_str().unwrap()];
        let lines = run("python3", python).unwrap();
        lines.lines().map(str::to_owned).collect()
    };
    let theirs = facts("theirs.xml", "virt-inspector", &["--format=qcow2", "-a"]);
    let ours = facts(
        "ours.xml",
        env!("CARGO_BIN_EXE_diskfs"),
        &["inspect", "--xml"],
    );
    assert!(theirs.len() > 1000, "{}", theirs.len());
    let missing: Vec<&String> = theirs.difference(&ours).collect();
    assert_eq!(missing, [""; 0], "of {}", theirs.len());
}
