//! Building of the User Mode Linux kernel with the agent in it, as one static program.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::boot_files::{
    Appliance, Initramfs, cache, find_program, install_agent, remove_checksum, run, write_checksum,
};

use super::kernel_source;
use super::lacking::{Lacking, Package, package};
use super::precompiled::Precompiled;
use diskfs_disk::{Error, ErrorKind, Result};

/// The kernel's configuration.
const CONFIG: &str = include_str!("../../../packaging/appliance/uml.config");

/// CRC-32C by the processor's instruction, which Linux lacks for this architecture, and the object
/// that includes it.
const CRC32: &str = include_str!("../../../packaging/appliance/crc32.h");
const CRC32_OBJECT: &str = "crc32-main.o";

/// A fix for interrupts that are missed before sleeping, and the objects that include it.
const IDLE: &str = include_str!("../../../packaging/appliance/idle.h");
const IDLE_OBJECTS: [(&str, &str); 2] = [("time.o", "TIME"), ("signal.o", "SIGNAL")];

/// The build time in the kernel, a constant so that builds are reproducible.
const BUILT_AT: &str = "Thu Jan  1 00:00:00 UTC 1970";
const BUILT_BY: &str = "diskfs";

/// The programs for building a kernel, with their packages.
pub(super) const PROGRAMS: &[(&str, Package)] = &[
    ("make", package("make")),
    ("gcc", package("gcc")),
    ("ld", package("binutils")),
    ("strip", package("binutils")),
    ("flex", package("flex")),
    ("bison", package("bison")),
    ("bc", package("bc")),
    ("tar", package("tar")),
    ("xz", XZ),
];

const XZ: Package = Package {
    deb: "xz-utils",
    rpm: "xz",
};

/// The package of the static C library, which the kernel is linked with.
pub(super) const LIBC: Package = Package {
    deb: "libc6-dev",
    rpm: "glibc-static",
};

/// The directories of the static C library.
const LIBC_DIRS: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// The parameters for building a User Mode Linux kernel. The same source, agent and compiler make
/// the same bytes.
#[derive(Debug, Clone)]
pub struct BuildUml {
    /// A tree of Linux, a tar archive of one, or a Debian package of one; `None` for the newest one
    /// in `/usr/src`.
    pub source: Option<PathBuf>,
    /// The agent, a static program; `None` for the one that is built in, or beside the program.
    pub agent: Option<PathBuf>,
    /// The build directory, which is kept for later builds; `None` for one that is removed.
    pub build_dir: Option<PathBuf>,
    /// The output file.
    pub output: PathBuf,
    /// The number of parallel compiler jobs.
    pub jobs: NonZeroUsize,
}

/// The result of the build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The version of Linux.
    pub version: String,
    /// The kernel, an executable program.
    pub output: PathBuf,
    /// The size of the kernel.
    pub size_bytes: u64,
}

impl BuildUml {
    /// Builds the kernel; `say` gets progress messages.
    ///
    /// # Errors
    /// Fails with `NotFound` if a program, the source or the agent is missing; the hint names the
    /// packages.
    pub fn run(&self, say: &mut dyn FnMut(&str)) -> Result<Built> {
        let source = if let Some(source) = &self.source {
            check_lacking(&Lacking::for_compiling())?;
            source.clone()
        } else {
            check_lacking(&Lacking::for_uml())?;
            kernel_source::find()?
        };
        let agent = Appliance::find(None).agent(self.agent.as_deref())?;

        let removed; // A temporary directory, removed at the end.
        let dir = if let Some(dir) = &self.build_dir {
            // The kernel's scripts change the working directory, so the path must be absolute.
            fs::create_dir_all(dir).map_err(|e| Error::from(e).in_file(dir))?;
            &dir.canonicalize()?
        } else {
            removed = ScratchDir::new()?;
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
        let mut build = Build {
            tree,
            objects: &objects,
            jobs: self.jobs,
            headers: None,
        };
        say(&format!("configuring Linux {version}"));
        build.configure()?;
        // ccache would not use what it has. The headers of a tree that was not unpacked here may
        // change between two builds.
        if find_program("ccache").is_none() && !source.is_dir() {
            let config = fs::read(objects.join(".config"))?;
            build.headers = Some(Precompiled::prepare(&objects, &config)?);
        }
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

    /// Installs the kernel atomically, because it may be running.
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
        // The build id depends on paths in the linker's command line, so it is removed.
        strip
            .arg("--strip-all")
            .arg("--remove-section=.note.gnu.build-id");
        run(strip.arg("-o").arg(&stripped).arg(kernel))?;
        remove_checksum(&self.output)?;
        fs::rename(&stripped, &self.output).map_err(|e| Error::from(e).in_file(&self.output))?;
        write_checksum(&self.output)?;
        Ok(fs::metadata(&self.output)?.len())
    }
}

/// A directory for the source and the objects of one build. It is removed when this is dropped.
#[derive(Debug)]
enum ScratchDir {
    /// A directory with the same name in each build, so that ccache finds what an earlier one has
    /// compiled. The lock keeps others away.
    Own { dir: PathBuf, _lock: File },
    /// A directory with a new name, for a build beside another one.
    Temporary(TempDir),
}

impl ScratchDir {
    fn new() -> Result<Self> {
        if let Some(cache) = cache() {
            fs::create_dir_all(&cache).map_err(|e| Error::from(e).in_file(&cache))?;
            let lock = File::create(cache.join("build.lock"))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let dir = cache.join("build");
                // A build that was killed has left it.
                let _ = fs::remove_dir_all(&dir);
                fs::create_dir(&dir).map_err(|e| Error::from(e).in_file(&dir))?;
                return Ok(Self::Own { dir, _lock: lock });
            }
        }
        let mut builder = tempfile::Builder::new();
        let dir = builder.prefix("diskfs-build-").tempdir_in("/var/tmp")?;
        Ok(Self::Temporary(dir))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Own { dir, .. } => dir,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Self::Own { dir, .. } = self {
            let _ = fs::remove_dir_all(dir); // The next build tries it again.
        }
    }
}

/// Fails if the host lacks something that is needed.
fn check_lacking(lacking: &Lacking) -> Result<()> {
    if lacking.names().is_empty() {
        return Ok(());
    }
    let missing = lacking.names().join(", ");
    let reason = format!("missing for building a kernel: {missing}");
    let error = Error::new(ErrorKind::NotFound, reason);
    Err(match lacking.command() {
        Some(command) => error.with_hint(format!("run `{command}`")),
        None => error,
    })
}

/// A source tree, and the directory for its object files.
#[derive(Debug)]
struct Build<'a> {
    tree: &'a Path,
    objects: &'a Path,
    jobs: NonZeroUsize,
    headers: Option<Precompiled>,
}

impl Build<'_> {
    fn make(&self) -> Command {
        let mut make = Command::new("make");
        make.arg("-C").arg(self.tree);
        make.arg(format!("O={}", self.objects.display()));
        make.args(["ARCH=um", "--silent"]);
        if find_program("ccache").is_some() {
            make.arg("CC=ccache gcc");
            make.env(
                "CCACHE_BASEDIR",
                self.objects.parent().unwrap_or(self.objects),
            );
        }
        make.arg(format!("-j{}", self.jobs));
        make.env("KBUILD_BUILD_TIMESTAMP", BUILT_AT)
            .env("KBUILD_BUILD_USER", BUILT_BY)
            .env("KBUILD_BUILD_HOST", BUILT_BY)
            .env("KBUILD_BUILD_VERSION", "1")
            .env("LC_ALL", "C")
            // Variables that are set for other builds would change the kernel.
            .env_remove("CFLAGS")
            .env_remove("KCFLAGS")
            .env_remove("MAKEFLAGS");
        // Kernel messages contain file names: remove the path of the tree.
        let mut flags = format!("-fmacro-prefix-map={}/=", self.tree.display());
        if let Some(headers) = &self.headers {
            flags = format!("{flags} {}", headers.add_to(&mut make));
        }
        make.arg(format!("KCFLAGS={flags}"));
        // Claim that the architecture has these functions; a source without that object ignores it.
        let ours = self.own_files_dir();
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

    /// Returns the storage class of `signals_pending`, which `idle.h` declares, too: thread-local
    /// since Linux supports several processors there.
    fn pending_storage(&self) -> &'static str {
        let file = self.tree.join("arch/um/os-Linux/signal.c");
        // If the file is missing, make reports it.
        let source = fs::read_to_string(file).unwrap_or_default();
        let is_by_thread = |line: &str| line == "static __thread unsigned int signals_pending;";
        if source.lines().any(is_by_thread) {
            "__thread"
        } else {
            ""
        }
    }

    /// Returns the directory of our files that are compiled into the kernel.
    fn own_files_dir(&self) -> PathBuf {
        self.objects.join("ours")
    }

    fn configure(&self) -> Result<()> {
        fs::create_dir_all(self.own_files_dir())?;
        fs::write(self.own_files_dir().join("crc32.h"), CRC32)?;
        fs::write(self.own_files_dir().join("idle.h"), IDLE)?;
        let wanted = self.objects.join("wanted.config");
        let archive = format!("{CONFIG}CONFIG_INITRAMFS_SOURCE=\"initramfs.cpio\"\n");
        fs::write(&wanted, archive)?;
        let mut make = self.make();
        make.arg("allnoconfig");
        run(make.arg(format!("KCONFIG_ALLCONFIG={}", wanted.display())))?;
        check_config(&fs::read_to_string(self.objects.join(".config"))?)
    }

    fn compile(&self) -> Result<()> {
        if let Some(headers) = &self.headers {
            run(self.make().arg("prepare"))?;
            match headers.compile(self.objects) {
                // Some source files don't compile with them: these are left to the call below.
                Ok(()) if run(self.make().args(["--keep-going", "linux"])).is_ok() => return Ok(()),
                Ok(()) => {}
                Err(error) => tracing::debug!(%error, "compiling without precompiled headers"),
            }
            headers.remove()?;
        }
        run(self.make().arg("linux"))
    }
}

/// Fails if a configured setting was dropped: a kernel without it would fail much later.
fn check_config(taken: &str) -> Result<()> {
    let is_taken = |wanted: &&str| taken.lines().any(|line| line == *wanted);
    let wanted = CONFIG.lines().filter(|line| line.starts_with("CONFIG_"));
    let left_out: Vec<&str> = wanted.filter(|line| !is_taken(line)).collect();
    if left_out.is_empty() {
        return Ok(());
    }
    let reason = format!(
        "unsupported settings for this version of Linux: {}",
        left_out.join(", ")
    );
    Err(Error::new(ErrorKind::Unsupported, reason))
}

/// Returns true if the host has a static C library.
pub(super) fn has_static_libc() -> bool {
    let mut dirs = LIBC_DIRS.iter();
    dirs.any(|dir| Path::new(dir).join("libc.a").is_file())
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
