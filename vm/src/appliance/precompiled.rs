//! Precompiled headers of the kernel: parsing the same headers a thousand times takes most of the
//! time of its compilation.
//!
//! Each source file begins with an empty header of ours. The compiler reads the precompiled headers
//! instead, if they fit the flags of that file, and the empty header otherwise. So nothing depends
//! on them, and files that don't compile with them are compiled without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot_files::run;
use diskfs_disk::{Error, ErrorKind, Result};

/// The headers, and the definitions of the macros that are different in each source file.
const HEADERS: &str = include_str!("../../../packaging/appliance/headers.h");
const NAMES: &str = include_str!("../../../packaging/appliance/names.h");

/// The variables of the kernel's Makefiles that define those macros, with the names that `NAMES`
/// expects.
const NAME_FLAGS: [&str; 3] = [
    "basename_flags=-DDISKFS_BASENAME=$(call name-fix,$(basetarget))",
    "modname_flags=-DDISKFS_MODNAME=$(call name-fix,$(modname)) \
     -DDISKFS_MODULE=$(call name-fix-token,$(modname))",
    "modfile_flags=-DDISKFS_MODFILE=$(call stringify,$(modfile))",
];

/// The record of how kbuild compiled an object of the kernel. `make prepare` compiles this one.
const RECORD: &str = "scripts/mod/.empty.o.cmd";

/// The precompiled headers of one configuration.
#[derive(Debug)]
pub(super) struct Precompiled {
    /// The directory of our files. Its name depends on the configuration: make does not know which
    /// headers an object consists of, so a new configuration must compile all objects again.
    dir: PathBuf,
}

impl Precompiled {
    /// Writes the source files for a configuration.
    ///
    /// # Errors
    /// Fails with the error of writing.
    pub(super) fn prepare(objects: &Path, config: &[u8]) -> Result<Self> {
        let crc = crc32c::crc32c(config);
        let dir = objects.join(format!("headers-{crc:08x}"));
        fs::create_dir_all(&dir)?;
        let new = Self { dir };
        write_once(&new.dir.join("headers.h"), HEADERS)?;
        write_once(&new.dir.join("names.h"), NAMES)?;
        write_once(&new.first(), "")?;
        Ok(new)
    }

    /// Returns the header with which each source file begins.
    fn first(&self) -> PathBuf {
        self.dir.join("first.h")
    }

    /// Returns the precompiled headers, which the compiler looks for beside that header.
    fn compiled(&self) -> PathBuf {
        self.dir.join("first.h.gch")
    }

    /// Adds the arguments of make with which objects read the headers, and returns the flags for
    /// all source files.
    pub(super) fn add_to(&self, make: &mut Command) -> String {
        let first = self.first();
        make.arg(format!(
            "NOSTDINC_FLAGS=-nostdinc -include {}",
            first.display()
        ));
        make.args(NAME_FLAGS);
        format!("-include {}", self.dir.join("names.h").display())
    }

    /// Compiles the headers, after `make prepare`, with the flags of an ordinary object.
    ///
    /// # Errors
    /// Fails if these headers don't compile.
    pub(super) fn compile(&self, objects: &Path) -> Result<()> {
        let record = fs::read_to_string(objects.join(RECORD))?;
        let (compiler, flags) = compiler_call(&record).ok_or_else(|| {
            let reason = "unknown form of kbuild's record of a call of the compiler";
            Error::new(ErrorKind::Unsupported, reason).in_file(objects.join(RECORD))
        })?;
        let mut command = Command::new(compiler);
        command.current_dir(objects).args(flags);
        command.args(["-x", "c-header", "-o"]).arg(self.compiled());
        run(command.arg(self.dir.join("headers.h")))
    }

    /// Removes the precompiled headers; the objects that are compiled from then on do without.
    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_file(self.compiled()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Writes a file unless it has these contents: a newer file makes make compile all objects again.
fn write_once(file: &Path, contents: &str) -> std::io::Result<()> {
    if fs::read_to_string(file).is_ok_and(|found| found == contents) {
        return Ok(());
    }
    fs::write(file, contents)
}

/// Returns the compiler in a record of kbuild, and its flags without those of the one source file.
fn compiler_call(record: &str) -> Option<(&str, Vec<&str>)> {
    let line = record.lines().find(|line| line.starts_with("savedcmd_"))?;
    let (_, call) = line.split_once(":=")?;
    let mut words = call.split(';').next()?.split_whitespace();
    let compiler = words.next()?;
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        let mut of_one_file = ["-DDISKFS_", "-DKBUILD_", "-D__KBUILD_", "-Wp,-MMD,"].iter();
        match word {
            // The last words are `-c -o OBJECT SOURCE`.
            "-c" => return Some((compiler, flags)),
            "-include" => drop(words.next()),
            _ if of_one_file.any(|prefix| word.starts_with(prefix)) => {}
            _ => flags.push(word),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_build_finds_the_files_of_the_first() {
        let objects = tempfile::tempdir().unwrap();
        let times = || {
            let new = Precompiled::prepare(objects.path(), b"CONFIG_X=y").unwrap();
            let files = [new.first(), new.dir.join("names.h")];
            files.map(|file| fs::metadata(file).unwrap().modified().unwrap())
        };
        assert_eq!(times(), times());
        let other = Precompiled::prepare(objects.path(), b"CONFIG_X=n").unwrap();
        assert_eq!(fs::read_dir(objects.path()).unwrap().count(), 2);
        assert!(other.first().is_file());
    }

    #[test]
    fn flags_of_one_source_file_are_left_out() {
        let record = "savedcmd_scripts/mod/empty.o := gcc -Wp,-MMD,scripts/mod/.empty.o.d \
                      -nostdinc -include /o/first.h -I./include -D__KERNEL__ -O2 \
                      -DDISKFS_MODFILE='\"scripts/mod/empty\"' -D__KBUILD_MODNAME=empty \
                      -c -o scripts/mod/empty.o /tree/scripts/mod/empty.c\n\nsource_x := y\n";
        let (compiler, flags) = compiler_call(record).unwrap();
        assert_eq!(compiler, "gcc");
        assert_eq!(flags, ["-nostdinc", "-I./include", "-D__KERNEL__", "-O2"]);
        assert_eq!(compiler_call("cmd_x := gcc -c x.c"), None);
    }
}
