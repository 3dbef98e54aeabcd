//! The modules of a kernel: which there are, and what each takes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bz_image::decompress;
use super::tools::run;
use crate::{Error, Result};

/// Directories below each other in a tree of modules; real ones have 8.
const MAX_DEPTH: usize = 16;

/// The modules in a directory of `/lib/modules`.
#[derive(Debug)]
pub(super) struct Modules(HashMap<String, PathBuf>);

/// One of them.
#[derive(Debug)]
pub(super) struct Module {
    name: String,
    bytes: Vec<u8>,
}

impl Modules {
    pub(super) fn in_tree(dir: &Path) -> Result<Self> {
        let mut found = HashMap::new();
        let kernel = dir.join("kernel");
        find(&kernel, 0, &mut found).map_err(|e| Error::from(e).in_file(&kernel))?;
        Ok(Self(found))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// These and what they take, in the order in which they load. One that there is not is built in,
    /// or not needed by this kernel.
    pub(super) fn with_dependencies(&self, names: &[&str]) -> Vec<Module> {
        let mut order = Vec::new();
        for name in names {
            self.add(name, &mut order, 0);
        }
        order
    }

    fn add(&self, name: &str, order: &mut Vec<Module>, depth: usize) {
        let is_there = order.iter().any(|module| module.name == name);
        let Some(file) = self.0.get(name).filter(|_| !is_there && depth < MAX_DEPTH) else {
            return;
        };
        let read = fs::read(file).map_err(Error::from);
        let bytes = match read.and_then(|bytes| decompress(&bytes)) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%error, module = name, "left out");
                return;
            }
        };
        for dependency in depends(&bytes) {
            self.add(&dependency, order, depth.saturating_add(1));
        }
        order.push(Module {
            name: name.to_owned(),
            bytes,
        });
    }
}

impl Module {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its bytes without what only debuggers read: a third, and the signature, which would take time
    /// to check.
    pub(super) fn stripped(&self) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("module.ko");
        fs::write(&file, &self.bytes)?;
        let mut strip = Command::new("strip");
        strip.args(["--strip-debug", "--remove-section=.BTF"]);
        run(strip.arg(&file))?;
        Ok(fs::read(&file)?)
    }
}

/// The names of modules have underscores where those of files may have dashes.
fn find(dir: &Path, depth: usize, found: &mut HashMap<String, PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if depth < MAX_DEPTH {
                find(&path, depth.saturating_add(1), found)?;
            }
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if let Some((name, _)) = name.split_once(".ko") {
            found.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

/// What a module takes, by its section `.modinfo`: texts with a NUL after each.
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
        let modules = Modules::in_tree(tree.path()).unwrap();
        let order = modules.with_dependencies(&["xfs", "loop", "nothing"]);
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
        let modules = Modules::in_tree(tree.path()).unwrap();
        assert!(!modules.with_dependencies(&["a"]).is_empty());
    }
}
