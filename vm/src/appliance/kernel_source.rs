//! The Linux source for the User Mode Linux kernel.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot_files::run;
use diskfs_disk::{Error, ErrorKind, Result};

/// The directory in which Debian's `linux-source-*` packages install the source.
const SOURCES: &str = "/usr/src";

/// The oldest supported version: the first one that sizes the processor state at run time (older
/// ones crash on processors with AMX) and works without ptrace (`seccomp=`).
const OLDEST: (u32, u32) = (6, 16);

/// A version of Linux: major, minor and sublevel.
type Version = (u32, u32, u32);

/// The directories whose code is for other machines. Their `Kconfig` files are read, but unpacking
/// their code would take most of the time.
const FOREIGN: &[&str] = &[
    "arch/alpha",
    "arch/arc",
    "arch/arm",
    "arch/arm64",
    "arch/csky",
    "arch/hexagon",
    "arch/loongarch",
    "arch/m68k",
    "arch/microblaze",
    "arch/mips",
    "arch/nios2",
    "arch/openrisc",
    "arch/parisc",
    "arch/powerpc",
    "arch/riscv",
    "arch/s390",
    "arch/sh",
    "arch/sparc",
    "arch/xtensa",
    "drivers/accel",
    "drivers/clk",
    "drivers/gpu",
    "drivers/hid",
    "drivers/iio",
    "drivers/infiniband",
    "drivers/input",
    "drivers/media",
    "drivers/mfd",
    "drivers/mtd",
    "drivers/net/dsa",
    "drivers/net/ethernet",
    "drivers/net/phy",
    "drivers/net/wireless",
    "drivers/pinctrl",
    "drivers/platform",
    "drivers/power",
    "drivers/scsi",
    "drivers/soc",
    "drivers/staging",
    "drivers/usb",
    "drivers/video",
    "sound",
    "tools/perf",
    "tools/testing",
];

/// Files that no build of a kernel reads.
const UNUSED: [&str; 4] = [
    "*/Documentation/*.rst",
    "*/Documentation/*.txt",
    "*/Documentation/*.yaml",
    "*.dts*",
];

/// Returns the newest source in [`SOURCES`].
///
/// # Errors
/// Fails with `NotFound`; the hint names the package to install.
pub(super) fn find() -> Result<PathBuf> {
    let entries = std::fs::read_dir(SOURCES).into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let path = entry.path();
        Some((version_in_name(path.file_name()?)?, path))
    });
    let newest = found.max_by_key(|(version, _)| *version);
    newest.map(|(_, path)| path).ok_or_else(|| {
        let reason = format!("missing {}", described());
        Error::new(ErrorKind::NotFound, reason).with_hint("name a source with --source")
    })
}

/// Returns the description of the sources that are usable.
pub(super) fn described() -> String {
    let (major, minor) = OLDEST;
    format!("source of Linux {major}.{minor} or newer in {SOURCES}")
}

/// Parses a version such as `7.2` or `7.2.12`. Returns `None` if it is too old.
pub(super) fn new_version(version: &str) -> Option<Version> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    let mut next = || numbers.next();
    let (major, minor) = (next()??, next()??);
    let sublevel = next().unwrap_or(Some(0))?;
    ((major, minor) >= OLDEST).then_some((major, minor, sublevel))
}

/// Parses the version in a name such as `linux-source-7.2.tar.xz` (Debian) or
/// `linux-7.2.12.tar.xz` (kernel.org). Returns `None` if it is too old.
fn version_in_name(name: &OsStr) -> Option<Version> {
    let rest = name.to_str()?.strip_prefix("linux-")?;
    let rest = rest.strip_prefix("source-").unwrap_or(rest);
    new_version(rest.strip_suffix(".tar.xz")?)
}

/// Unpacks `source` (a tar archive, or a Debian package that contains one) into `tree`, unless an
/// earlier build has done so. An interrupted call leaves no tree.
pub(super) fn unpack(source: &Path, tree: &Path) -> Result<()> {
    if tree.exists() {
        return Ok(());
    }
    let unfinished = tree.with_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    std::fs::create_dir_all(&unfinished)?;
    if source.extension() == Some(OsStr::new("deb")) {
        unpack_package(source, &unfinished)?;
    } else {
        unpack_tar(source, &unfinished)?;
    }
    Ok(std::fs::rename(&unfinished, tree)?)
}

fn unpack_package(source: &Path, tree: &Path) -> Result<()> {
    let package = tempfile::tempdir_in(tree)?;
    let mut dpkg = Command::new("dpkg-deb");
    run(dpkg.arg("-x").arg(source).arg(package.path()))?;
    let inside = package.path().join("usr/src");
    let mut entries = std::fs::read_dir(&inside)?.flatten();
    let tar = entries.find(|entry| version_in_name(&entry.file_name()).is_some());
    let tar = tar.ok_or_else(|| {
        let reason = "missing linux-source-*.tar.xz in the package";
        Error::new(ErrorKind::Invalid, reason).in_file(source)
    })?;
    unpack_tar(&tar.path(), tree)
}

fn unpack_tar(archive: &Path, tree: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    // xz has threads for decompressing since 5.4; an older one ignores the option.
    tar.env("XZ_DEFAULTS", "-T0");
    tar.arg("-xf").arg(archive).arg("-C").arg(tree);
    for dir in FOREIGN {
        tar.arg(format!("--exclude=*/{dir}/*.[chS]"));
    }
    tar.args(UNUSED.map(|pattern| format!("--exclude={pattern}")));
    run(tar.arg("--strip-components=1"))
}

/// Returns the version of a source tree. Fails if it is too old to run on every processor.
pub(super) fn check_version(tree: &Path) -> Result<String> {
    let makefile = std::fs::read_to_string(tree.join("Makefile"))?;
    let number = |name: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| {
            rest.trim_start()
                .strip_prefix('=')?
                .trim()
                .parse::<u32>()
                .ok()
        })
    };
    let version = number("VERSION").zip(number("PATCHLEVEL"));
    let (major, minor) = version.ok_or_else(|| {
        let reason = "not a source tree of Linux: missing version in the Makefile";
        Error::new(ErrorKind::Invalid, reason).in_file(tree)
    })?;
    if (major, minor) < OLDEST {
        let reason = format!(
            "Linux {major}.{minor} is too old: before {}.{}, User Mode Linux crashes on processors with AMX",
            OLDEST.0, OLDEST.1
        );
        return Err(Error::new(ErrorKind::Unsupported, reason).in_file(tree));
    }
    let sublevel = number("SUBLEVEL").unwrap_or_default();
    Ok(format!("{major}.{minor}.{sublevel}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        let version = |name: &str| version_in_name(OsStr::new(name));
        assert_eq!(version("linux-source-7.2.tar.xz"), Some((7, 2, 0)));
        assert_eq!(version("linux-6.18.3.tar.xz"), Some((6, 18, 3)));
        assert_eq!(version("linux-source-6.12.tar.xz"), None);
        assert_eq!(version("linux-7.tar.xz"), None);
        assert_eq!(version("linux-config-7.2"), None);
        assert_eq!(version("linux-source-7.2"), None);
    }

    #[test]
    fn a_tree_is_there_when_all_of_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, archive) = (dir.path().join("linux"), dir.path().join("source.tar"));
        std::fs::write(&archive, "no archive").unwrap();
        unpack(&archive, &tree).unwrap_err();
        assert!(!tree.exists());
        let source = dir.path().join("linux-7.2");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("Kbuild"), "").unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&archive).arg("-C").arg(dir.path());
        run(tar.arg("linux-7.2")).unwrap();
        unpack(&archive, &tree).unwrap();
        assert!(tree.join("Kbuild").exists());
        assert!(!tree.with_extension("unfinished").exists());
    }

    #[test]
    fn old_sources_are_refused() {
        let tree = tempfile::tempdir().unwrap();
        let makefile = |text: &str| std::fs::write(tree.path().join("Makefile"), text).unwrap();
        makefile("VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 12\n");
        assert_eq!(check_version(tree.path()).unwrap(), "7.2.12");
        makefile("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n");
        assert_eq!(
            check_version(tree.path()).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        makefile("all:\n\ttrue\n");
        assert_eq!(
            check_version(tree.path()).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
}
