//! The static program, which is built only by hand: `DISKFS_STATIC` names it, and without it these
//! tests do nothing. The program of this build stands in for it where it can.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use diskfs_fixtures::{have, image, require_root, run};

/// The largest size of the static program, as in `packaging/static/build`.
const SIZE_BYTES_MAX: u64 = 30_000_000;
/// The longest time of `diskfs --version`.
const START_MAX: Duration = Duration::from_millis(3);

/// Mounts each image in a root with the program, its images, /proc, /dev/fuse and /dev/null, and nothing
/// else.
const IN_EMPTY_ROOT: &str = "
    cd $0
    mkdir dev mnt proc
    mknod dev/fuse c 10 229
    mknod dev/null c 1 3
    mount -t proc proc proc
    for image in *-default; do
        chroot . /diskfs mount /$image /mnt
        test -e mnt/acl-access
        chroot . /diskfs umount /mnt
        chroot . /diskfs stat /$image:/acl-access
    done
";

/// Returns the static program to test, if there is one.
pub(crate) fn static_program() -> Option<PathBuf> {
    std::env::var_os("DISKFS_STATIC").map(|path| fs::canonicalize(path).unwrap())
}

#[test]
fn the_version_is_printed_at_once() {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_diskfs"));
    let is_static = static_program().is_some();
    let program = static_program().unwrap_or(built);
    let version = run(&program, ["--version"]).unwrap();
    let first = format!("diskfs {}\n", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&first), "{version}");
    assert!(version.contains("\nfeatures: fuse "), "{version}");
    assert_eq!(run(&program, ["-V"]).unwrap(), first);
    // Of many runs the fastest: others wait for the processor.
    let times = (0..50).map(|_| {
        let begin = Instant::now();
        Command::new(&program).arg("--version").output().unwrap();
        begin.elapsed()
    });
    let fastest = times.min().unwrap();
    // A program with libraries and debug information takes longer to start.
    let limit = if is_static { START_MAX } else { START_MAX * 10 };
    assert!(fastest <= limit, "{fastest:?}");
}

#[test]
fn the_static_program_needs_no_library() {
    let Some(program) = static_program() else {
        return;
    };
    let length = fs::metadata(&program).unwrap().len();
    assert!(length <= SIZE_BYTES_MAX, "{length} bytes");
    if !have(&["readelf", "unshare"]) || require_root().is_none() {
        return;
    }
    let told = run("readelf", ["-ldW".as_ref(), program.as_path()]).unwrap();
    assert!(
        !told.contains("INTERP") && !told.contains("(NEEDED)"),
        "{told}"
    );
    let root = tempfile::tempdir().unwrap();
    fs::copy(&program, root.path().join("diskfs")).unwrap();
    for name in ["ext4-default", "xfs-default", "btrfs-default"] {
        fs::copy(image(name).path(), root.path().join(name)).unwrap();
    }
    let words = [
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-euc",
        IN_EMPTY_ROOT,
    ]
    .map(Path::new);
    run("unshare", words.into_iter().chain([root.path()])).unwrap();
}
