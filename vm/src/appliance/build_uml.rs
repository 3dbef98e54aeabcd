//! Building the kernel of User Mode Linux, with the agent in it, as one static program.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot_files::{Initramfs, find_program, install_agent, run, static_agent};

use super::kernel_source;
use diskfs_disk::{Error, ErrorKind, Result};

/// What the kernel is made of.
const CONFIG: &str = include_str!("../../../packaging/appliance/uml.config");

/// Checksums by the processor's instruction, which Linux leaves out here, and the object that takes them.
const CRC32: &str = include_str!("../../../packaging/appliance/crc32.h");
const CRC32_OBJECT: &str = "crc32-main.o";

/// Interrupts that are not slept through, and the objects that it goes into.
const IDLE: &str = include_str!("../../../packaging/appliance/idle.h");
const IDLE_OBJECTS: [(&str, &str); 2] = [("time.o", "TIME"), ("signal.o", "SIGNAL")];

/// What stands in the kernel where others have the time and the place of the build.
const BUILT_AT: &str = "Thu Jan  1 00:00:00 UTC 1970";
const BUILT_BY: &str = "diskfs";

/// The programs that building a kernel takes, and the Debian packages that they are in.
const PROGRAMS: &[(&str, &str)] = &[
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("strip", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// How to build a kernel of User Mode Linux. The same source, agent and compiler make the same bytes.
#[derive(Debug, Clone)]
pub struct BuildUml {
    /// A tree of Linux, a tar archive of one, or Debian's package of one; `None` for the newest one
    /// in `/usr/src`.
    pub source: Option<PathBuf>,
    /// The agent, a static program.
    pub agent: PathBuf,
    /// Where to build, and to leave what was built for the next time; `None` for a directory that is
    /// removed.
    pub build_dir: Option<PathBuf>,
    /// The file to make.
    pub output: PathBuf,
    /// How many compilers run at once.
    pub jobs: NonZeroUsize,
}

/// What was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The version of Linux.
    pub version: String,
    /// The program.
    pub output: PathBuf,
    /// Its size.
    pub size_bytes: u64,
}

impl BuildUml {
    /// Builds it; `say` hears what is done.
    ///
    /// # Errors
    /// `NotFound` for a program, a source or an agent that is missing, with what to install.
    pub fn run(&self, say: &mut dyn FnMut(&str)) -> Result<Built> {
        check_programs()?;
        let source = match &self.source {
            Some(source) => source.clone(),
            None => kernel_source::find()?,
        };
        let agent = static_agent(&self.agent)?;

        let removed; // At the end, with what is in it.
        let dir = if let Some(dir) = &self.build_dir {
            // The kernel's own scripts go to other directories.
            fs::create_dir_all(dir).map_err(|e| Error::from(e).in_file(dir))?;
            &dir.canonicalize()?
        } else {
            removed = tempfile::Builder::new()
                .prefix("diskfs-build-")
                .tempdir_in("/var/tmp")?;
            removed.path()
        };
        let unpacked = dir.join("linux");
        let tree = if source.is_dir() {
            &source
        } else {
            say(&format!("unpacking {}", source.display()));
            kernel_source::unpack(&source, &unpacked)?;
            &unpacked
        };
        let version = kernel_source::check_version(tree)?;

        let objects = dir.join("objects");
        fs::create_dir_all(&objects)?;
        let archive = Initramfs::with_agent(&agent)?.finish()?;
        fs::write(objects.join("initramfs.cpio"), archive)?;
        let build = Build {
            tree,
            objects: &objects,
            jobs: self.jobs,
        };
        say(&format!("configuring Linux {version}"));
        build.configure()?;
        say(&format!("compiling Linux {version}"));
        build.compile()?;
        let size_bytes = self.install(&objects.join("linux"))?;
        install_agent(&agent, &self.output)?;
        Ok(Built {
            version,
            output: self.output.clone(),
            size_bytes,
        })
    }

    /// Puts the kernel at its place in one step: it may be running.
    fn install(&self, kernel: &Path) -> Result<u64> {
        let parent = self
            .output
            .parent()
            .filter(|dir| !dir.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|e| Error::from(e).in_file(parent))?;
        let new = tempfile::Builder::new()
            .prefix(".uml-")
            .tempdir_in(parent)?;
        let stripped = new.path().join("uml");
        let mut strip = Command::new("strip");
        // The build's name for itself differs from build to build when the linker makes it of paths.
        strip
            .arg("--strip-all")
            .arg("--remove-section=.note.gnu.build-id");
        run(strip.arg("-o").arg(&stripped).arg(kernel))?;
        fs::rename(&stripped, &self.output).map_err(|e| Error::from(e).in_file(&self.output))?;
        Ok(fs::metadata(&self.output)?.len())
    }
}

/// A tree, and where its objects go.
#[derive(Debug)]
struct Build<'a> {
    tree: &'a Path,
    objects: &'a Path,
    jobs: NonZeroUsize,
}

impl Build<'_> {
    fn make(&self) -> Command {
        let mut make = Command::new("make");
        make.arg("-C").arg(self.tree);
        make.arg(format!("O={}", self.objects.display()));
        make.args(["ARCH=um", "--silent"]);
        make.arg(format!("-j{}", self.jobs));
        make.env("KBUILD_BUILD_TIMESTAMP", BUILT_AT)
            .env("KBUILD_BUILD_USER", BUILT_BY)
            .env("KBUILD_BUILD_HOST", BUILT_BY)
            .env("KBUILD_BUILD_VERSION", "1")
            .env("LC_ALL", "C")
            // What somebody has set for other builds would make another kernel.
            .env_remove("CFLAGS")
            .env_remove("KCFLAGS")
            .env_remove("MAKEFLAGS");
        // Messages of the kernel name its files: without the place of the tree.
        let prefix = format!("-fmacro-prefix-map={}/=", self.tree.display());
        make.arg(format!("KCFLAGS={prefix}"));
        // As if the architecture had them; a source without that object does not notice.
        let ours = self.ours();
        let flags = format!("-DCONFIG_CRC32_ARCH -I{}", ours.display());
        make.arg(format!("CFLAGS_{CRC32_OBJECT}={flags}"));
        let idle = ours.join("idle.h");
        let storage = self.pending_storage();
        for (object, part) in IDLE_OBJECTS {
            let flags = format!("-DDISKFS_{part}={storage} -include {}", idle.display());
            make.arg(format!("CFLAGS_{object}={flags}"));
        }
        make
    }

    /// How this Linux stores what `idle.h` declares, too: by thread since it has several processors.
    fn pending_storage(&self) -> &'static str {
        let file = self.tree.join("arch/um/os-Linux/signal.c");
        let source = fs::read_to_string(file).unwrap_or_default(); // make says what is missing.
        let is_by_thread = |line: &str| line == "static __thread unsigned int signals_pending;";
        if source.lines().any(is_by_thread) {
            "__thread"
        } else {
            ""
        }
    }

    /// Where files of ours are that go into the kernel.
    fn ours(&self) -> PathBuf {
        self.objects.join("ours")
    }

    fn configure(&self) -> Result<()> {
        fs::create_dir_all(self.ours())?;
        fs::write(self.ours().join("crc32.h"), CRC32)?;
        fs::write(self.ours().join("idle.h"), IDLE)?;
        let wanted = self.objects.join("wanted.config");
        let archive = format!("{CONFIG}CONFIG_INITRAMFS_SOURCE=\"initramfs.cpio\"\n");
        fs::write(&wanted, archive)?;
        let mut make = self.make();
        make.arg("allnoconfig");
        run(make.arg(format!("KCONFIG_ALLCONFIG={}", wanted.display())))?;
        check_config(&fs::read_to_string(self.objects.join(".config"))?)
    }

    fn compile(&self) -> Result<()> {
        let mut make = self.make();
        run(make.arg("linux"))
    }
}

/// Fails when a setting that is wanted was left out: a kernel without it would fail much later.
fn check_config(taken: &str) -> Result<()> {
    let is_taken = |wanted: &&str| taken.lines().any(|line| line == *wanted);
    let wanted = CONFIG.lines().filter(|line| line.starts_with("CONFIG_"));
    let left_out: Vec<&str> = wanted.filter(|line| !is_taken(line)).collect();
    if left_out.is_empty() {
        return Ok(());
    }
    let reason = format!("this Linux does not take {}", left_out.join(", "));
    Err(Error::new(ErrorKind::Unsupported, reason))
}

fn check_programs() -> Result<()> {
    let missing: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| find_program(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |part: fn(&(&'static str, &'static str)) -> &'static str| {
        let mut names: Vec<_> = missing.iter().map(|pair| part(pair)).collect();
        names.dedup();
        names.join(" ")
    };
    let reason = format!(
        "building a kernel takes programs that are missing: {}",
        list(|p| p.0)
    );
    let hint = format!("install them, as in `apt-get install {}`", list(|p| p.1));
    Err(Error::new(ErrorKind::NotFound, reason).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_left_out_are_named() {
        check_config(CONFIG).unwrap();
        let error = check_config(&CONFIG.replace("CONFIG_XFS_FS=y\n", "")).unwrap_err();
        assert!(error.reason().contains("CONFIG_XFS_FS=y"), "{error}");
    }
}
