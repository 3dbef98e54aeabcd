//! The packages: built around a program, installed in a Debian system, used and purged.
//!
//! The program is the one of this build, without debug information, or the one that
//! `DISKFS_STATIC` names (packaging/README.md).

use std::fs;
use std::path::{Path, PathBuf};

use diskfs_fixtures::{debian_tree, have, image, require_fuse, require_root, run, skip};

use crate::packaging;
use crate::static_program::static_program;

/// Makes an image of each filesystem, with a file `hello`, without mounting one.
const MAKE_IMAGES: &str = r"
    cd $0
    mkdir files
    echo hello > files/hello
    truncate -s 16M ext4.img
    mke2fs -q -F -t ext4 -d files ext4.img
    mkfs.btrfs -q --rootdir files --shrink btrfs.img
    printf '/\n0 0\nd--755 0 0\nhello ---644 0 0 files/hello\n$\n' > prototype
    truncate -s 300M xfs.img
    mkfs.xfs -q -p prototype xfs.img
    rm -r files prototype
";

/// Returns the program to package.
fn program(directory: &Path) -> PathBuf {
    if let Some(program) = static_program() {
        return program;
    }
    let program = directory.join("diskfs");
    let built = Path::new(env!("CARGO_BIN_EXE_diskfs"));
    run("strip", ["-o".as_ref(), program.as_path(), built]).unwrap();
    program
}

/// Runs a script of `packaging/` with a list of licences, which takes a while to collect.
fn build(script: &str, arguments: &[&Path], directory: &Path) {
    let licences = directory.join("licences");
    if !licences.exists() {
        let collected = run(packaging("licences/collect"), [""; 0]).unwrap();
        fs::write(&licences, collected).unwrap();
    }
    let environment = format!("DISKFS_LICENCES={}", licences.display());
    let script = packaging(script);
    let words = [
        Path::new(&environment),
        Path::new("RPM_PAYLOAD=w1.gzdio"),
        &script,
    ];
    run("env", words.iter().chain(arguments)).unwrap();
}

/// Returns the only file with this extension.
fn only(directory: &Path, extension: &str) -> PathBuf {
    let files = fs::read_dir(directory).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

/// Returns the paths of the files in a package, without those that only one kind of package has.
fn paths<'a>(listed: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut paths: Vec<String> = listed
        .filter(|path| !path.contains("/zsh/"))
        .filter(|path| !path.ends_with("/copyright") && !path.ends_with("/changelog.Debian.gz"))
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths
}

#[test]
fn packages_are_installed_used_and_removed() {
    let tools = [
        "debootstrap",
        "mke2fs",
        "mkfs.btrfs",
        "mkfs.xfs",
        "rpmbuild",
        "rpm",
    ];
    if require_root().is_none() || require_fuse().is_none() || !have(&tools) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let program = program(path);
    let output = path.join("output");
    let options = ["--compression", "none", "--program"].map(Path::new);
    let options = [&options[..], &[&program, "--output".as_ref(), &output]].concat();
    build("debian/build", &options, path);
    build("rpm/build", &[&program, &output], path);

    let package = only(&output, "deb");
    let listed = run("dpkg-deb", ["--contents".as_ref(), package.as_path()]).unwrap();
    // A line ends with the path, or with the path and the target of a link.
    let files = listed.lines().filter(|line| !line.starts_with('d'));
    let files = files.map(|line| line.split_whitespace().nth(5).unwrap());
    let files = paths(files.map(|path| path.trim_start_matches('.')));
    let package = only(&output, "rpm");
    let format = "--queryformat=[%{FILEMODES:perms} %{FILENAMES}\\n]";
    let words = ["--query", "--package", format].map(Path::new);
    let listed = run("rpm", words.into_iter().chain([&*package])).unwrap();
    let listed = listed.lines().filter(|line| !line.starts_with('d'));
    let listed = listed.map(|line| line.split_once(' ').unwrap().1);
    assert_eq!(paths(listed), files);
    assert!(files.len() > 100, "{files:?}");

    run(
        "sh",
        ["-euc".as_ref(), MAKE_IMAGES.as_ref(), output.as_path()],
    )
    .unwrap();
    let tree = debian_tree(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packaging/installed");
    let told = run(script, [&tree, &output]).unwrap();
    for line in [
        "mounted by a user: btrfs.img",
        "mounted by a user: ext4.img",
        "mounted by a user: xfs.img",
        "qemu-img is an alternative",
        "mounted by fstab",
        "mounted as a unit",
        "purged: nothing is left",
        "install: apparmor_parser --replace --write-cache /etc/apparmor.d/diskfs",
        "upgrade: systemctl try-restart diskfs-deploy.service",
        "erase: systemctl stop diskfs-deploy.socket diskfs-deploy.service",
        "erase: systemctl --no-reload --quiet disable diskfs-deploy.socket",
        "erase: apparmor_parser --remove /etc/apparmor.d/diskfs",
        "erased: nothing is left",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    // An installation restarts nothing, and an upgrade stops nothing.
    for line in ["install: systemctl try-restart", "upgrade: systemctl stop"] {
        assert!(!told.contains(line), "{line}\n{told}");
    }
}

/// The package of the library for C has what a program needs to be compiled and run.
#[test]
fn the_library_is_packaged() {
    if !have(&["dpkg-deb", "cc"]) {
        return;
    }
    // Built with the workspace, of which this test is a part.
    let library = Path::new(env!("CARGO_BIN_EXE_diskfs")).with_file_name("deps");
    if !library.join("libdiskfs_c.so").exists() {
        skip("the library for C is not built (cargo build --workspace --all-targets)");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("licences"), "licences").unwrap();
    let program = program(path);
    let output = path.join("output");
    let options = ["--compression", "none", "--library"].map(Path::new);
    let options = options
        .into_iter()
        .chain([&*library, Path::new("--program")]);
    let options: Vec<&Path> = options
        .chain([&*program, Path::new("--output"), &*output])
        .collect();
    build("debian/build", &options, path);

    let packages = fs::read_dir(&output).unwrap();
    let packages = packages.map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| path.to_string_lossy().contains("/libdiskfs-dev_");
    let package = packages.into_iter().find(is_library).unwrap();
    let root = path.join("root");
    run("dpkg-deb", ["-x".as_ref(), &*package, &*root]).unwrap();
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let config = fs::read_to_string(libraries.join("pkgconfig/diskfs.pc")).unwrap();
    assert!(
        config.contains("\nLibs: -L${libdir} -ldiskfs\n"),
        "{config}"
    );
    assert!(libraries.join("libdiskfs.a").exists());
    let example = root.join("usr/share/doc/libdiskfs-dev/examples/files.c");
    let compiled = path.join("files");
    let words = [
        Path::new("-I"),
        &root.join("usr/include"),
        &example,
        Path::new("-o"),
        &compiled,
        Path::new("-L"),
        &libraries,
        Path::new("-ldiskfs"),
    ];
    run("cc", words).unwrap();
    let environment = format!("LD_LIBRARY_PATH={}", libraries.display());
    let image = image("ext4-default");
    let told = run("env", [environment.as_ref(), &*compiled, &*image.path()]).unwrap();
    assert!(told.ends_with("by a program in C\n"), "{told}");
}

/// The licences of what is linked are complete, and none of them is the GPL.
#[test]
fn licences_are_complete() {
    let licences = run(packaging("licences/collect"), [""; 0]).unwrap();
    for name in [
        "* clap ",
        "* fuser ",
        "* zstd-sys ",
        "* musl",
        "* jemalloc,",
    ] {
        assert!(licences.contains(name), "{name}");
    }
    assert!(!licences.contains("* proptest "));
    assert!(!licences.contains("GNU GENERAL PUBLIC LICENSE"));
}

#[test]
fn apparmor_accepts_the_profile() {
    if !have(&["apparmor_parser"]) {
        return;
    }
    let options = ["--skip-kernel-load", "--skip-cache"].map(Path::new);
    let profile = packaging("apparmor/diskfs");
    run("apparmor_parser", options.into_iter().chain([&*profile])).unwrap();
}
