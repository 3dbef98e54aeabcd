//! The modules of a kernel and their dependencies.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bz_image::decompress;
use super::tools::{find_program, run};
use crate::architecture::Architecture;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

/// The maximum depth of directories and of dependencies; real trees have 8 directories.
const MAX_DEPTH: usize = 16;

/// The maximum size of one module and of all that are used, unpacked: ten times the size of real
/// ones.
const MAX_MODULE_BYTES: u64 = 64 << 20;
const MAX_BYTES: usize = 512 << 20;

/// The maximum size of a guest's module list; that of a distribution's kernel with all modules has
/// 1 MiB.
const MAX_LIST_BYTES: u64 = 16 << 20;

type ReadFile = Box<dyn Fn(&Path) -> Result<Vec<u8>>>;

/// The modules in a directory of `/lib/modules`.
pub(crate) struct Modules {
    /// The files by module name.
    files: HashMap<String, PathBuf>,
    read: ReadFile,
    /// The program that strips the modules; `None` if they are untrusted, for which such programs
    /// were not written, or if there is none for their architecture.
    strip: Option<PathBuf>,
}

/// An unpacked module.
#[derive(Debug)]
pub(crate) struct Module {
    name: String,
    bytes: Vec<u8>,
    strip: Option<PathBuf>,
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modules")
            .field("count", &self.files.len())
            .field("strip", &self.strip)
            .finish_non_exhaustive()
    }
}

impl Modules {
    /// Finds the modules of the host, or of a package for that architecture.
    pub(crate) fn in_tree(dir: &Path, architecture: Architecture) -> Result<Self> {
        let mut files = HashMap::new();
        let kernel = dir.join("kernel");
        find(&kernel, 0, &mut files).map_err(|e| Error::from(e).in_file(&kernel))?;
        Ok(Self {
            files,
            read: Box::new(|file| Ok(fs::read(file)?)),
            strip: strip_program(architecture),
        })
    }

    /// Finds the modules of a guest in this directory of its tree, by the list that depmod(8)
    /// makes.
    pub(crate) fn in_guest(tree: &Filesystem, dir: &str) -> Result<Self> {
        let list = tree.read_at_most(format!("{dir}/modules.dep"), MAX_LIST_BYTES)?;
        let list = String::from_utf8_lossy(&list);
        let mut files = HashMap::new();
        for line in list.lines() {
            if let Some((file, _)) = line.split_once(':') {
                add_file(Path::new(dir).join(file), &mut files);
            }
        }
        let tree = tree.clone();
        let read = move |file: &Path| {
            let path = file.as_os_str().as_encoded_bytes();
            tree.read_at_most(path, MAX_MODULE_BYTES)
        };
        Ok(Self {
            files,
            read: Box::new(read),
            strip: None,
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Returns the named modules and their dependencies in load order. A module that does not exist
    /// is skipped: it is built in, or this kernel does not need it.
    ///
    /// # Errors
    /// Fails with `Unsupported` if they are larger than the modules of any real kernel.
    pub(crate) fn with_dependencies(&self, names: &[&str]) -> Result<Vec<Module>> {
        let mut walk = DependencyWalk {
            modules: self,
            met: HashSet::new(),
            order: Vec::new(),
            left_bytes: MAX_BYTES,
        };
        for name in names {
            walk.add(name, 0)?;
        }
        Ok(walk.order)
    }
}

/// The state of collecting modules.
struct DependencyWalk<'m> {
    modules: &'m Modules,
    met: HashSet<String>,
    order: Vec<Module>,
    left_bytes: usize,
}

impl DependencyWalk<'_> {
    fn add(&mut self, name: &str, depth: usize) -> Result<()> {
        let modules = self.modules;
        let Some(file) = modules.files.get(name).filter(|_| depth < MAX_DEPTH) else {
            return Ok(());
        };
        // Some modules depend on each other.
        if !self.met.insert(name.to_owned()) {
            return Ok(());
        }
        let read = (modules.read)(file);
        let bytes = match read.and_then(|bytes| decompress(&bytes, MAX_MODULE_BYTES)) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%error, module = name, "cannot read a module; it is left out");
                return Ok(());
            }
        };
        self.left_bytes = self.left_bytes.checked_sub(bytes.len()).ok_or_else(|| {
            let reason = "the modules are too large";
            Error::new(ErrorKind::Unsupported, reason)
        })?;
        for dependency in depends(&bytes) {
            self.add(&dependency, depth.saturating_add(1))?;
        }
        self.order.push(Module {
            name: name.to_owned(),
            bytes,
            strip: modules.strip.clone(),
        });
        Ok(())
    }
}

impl Module {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the module's bytes. Debug sections of a host's module are stripped, which leaves a
    /// third, and so is the signature, which would take time to check.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>> {
        let Some(strip) = self.strip else {
            return Ok(self.bytes);
        };
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("module.ko");
        fs::write(&file, &self.bytes)?;
        let mut strip = Command::new(strip);
        strip.args(["--strip-debug", "--remove-section=.BTF"]);
        run(strip.arg(&file))?;
        Ok(fs::read(&file)?)
    }
}

/// Returns the program that strips files of that architecture; `None` if it is not installed.
fn strip_program(architecture: Architecture) -> Option<PathBuf> {
    if architecture == Architecture::HOST {
        return Some("strip".into());
    }
    find_program(&format!("{}-linux-gnu-strip", architecture.name()))
}

fn find(dir: &Path, depth: usize, found: &mut HashMap<String, PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            add_file(path, found);
        } else if depth < MAX_DEPTH {
            find(&path, depth.saturating_add(1), found)?;
        }
    }
    Ok(())
}

/// Adds a module's file. Dashes in file names become underscores in module names.
fn add_file(path: PathBuf, found: &mut HashMap<String, PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some((name, _)) = name.split_once(".ko") {
        let name = name.replace('-', "_");
        found.insert(name, path);
    }
}

/// Returns a module's dependencies from its section `.modinfo`, which contains NUL-terminated
/// texts.
fn depends(module: &[u8]) -> Vec<String> {
    let mut texts = module.split(|byte| *byte == 0);
    let list = texts.find_map(|text| text.strip_prefix(b"depends="));
    let list = list.and_then(|list| std::str::from_utf8(list).ok());
    let names = list
        .unwrap_or_default()
        .split(',')
        .filter(|name| !name.is_empty());
    names.map(|name| name.replace('-', "_")).collect()
}

/// Returns the numbers in a version for comparison: `6.1.0-56` comes after `6.1.0-9`.
pub(crate) fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &str) -> Vec<u8> {
        format!("\x7fELF\0\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
    }

    #[test]
    fn what_a_module_takes_loads_before_it() {
        let tree = tempfile::tempdir().unwrap();
        let dir = tree.path().join("kernel/fs/xfs");
        fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, depends: &str| fs::write(dir.join(name), module(depends)).unwrap();
        write("xfs.ko", "libcrc32c,exportfs");
        write("libcrc32c.ko", "crc32c-intel");
        write("crc32c-intel.ko", "");
        let packed = zstd::encode_all(&module("xfs")[..], 1).unwrap();
        fs::write(dir.join("loop.ko.zst"), packed).unwrap();
        let modules = Modules::in_tree(tree.path(), Architecture::HOST).unwrap();
        let order = modules
            .with_dependencies(&["xfs", "loop", "nothing"])
            .unwrap();
        let names: Vec<&str> = order.iter().map(Module::name).collect();
        assert_eq!(names, ["crc32c_intel", "libcrc32c", "xfs", "loop"]);
    }

    #[test]
    fn modules_that_take_each_other_end() {
        let tree = tempfile::tempdir().unwrap();
        let dir = tree.path().join("kernel");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a.ko"), module("b")).unwrap();
        fs::write(dir.join("b.ko"), module("a")).unwrap();
        let modules = Modules::in_tree(tree.path(), Architecture::HOST).unwrap();
        let order = modules.with_dependencies(&["a"]).unwrap();
        let names: Vec<&str> = order.iter().map(Module::name).collect();
        assert_eq!(names, ["b", "a"]);
    }
}
