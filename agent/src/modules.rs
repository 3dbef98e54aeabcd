//! The kernel modules of the initramfs.

use crate::kernel_log::log;
use std::fs::{self, File};

use rustix::io::Errno;
use rustix::system::finit_module;

/// The directory of the modules.
const DIR: &str = "/modules";

/// The list of modules to load at boot: file names below [`DIR`], one per line, in load order. A
/// list with a dot and a filesystem's name at the end has the modules of that filesystem, because
/// loading them may take longer than mounting.
const ORDER: &str = "/modules/order";

/// Loads the modules that are always needed.
pub(super) fn load() {
    load_list(ORDER);
}

/// Loads the modules of a filesystem, named as for mount(2).
pub(crate) fn load_for(kind: &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if kind.chars().all(is_name) {
        load_list(&format!("{ORDER}.{kind}"));
    }
}

/// Loads the modules of all filesystems, and deletes the files.
pub(super) fn load_all() {
    let lists = fs::read_dir(DIR).into_iter().flatten().flatten();
    for list in lists {
        let name = list.file_name();
        if let Some(kind) = name.to_str().and_then(|name| name.strip_prefix("order.")) {
            load_for(kind);
        }
    }
    fs::remove_dir_all(DIR).ok(); // The files only take memory now.
}

fn load_list(list: &str) {
    let Ok(order) = fs::read_to_string(list) else {
        return;
    };
    for name in order.lines().filter(|name| !name.is_empty()) {
        let path = format!("{DIR}/{name}");
        let Ok(file) = File::open(&path) else {
            log(&format!("missing module {path}"));
            continue;
        };
        match finit_module(&file, c"", 0) {
            // The module is loaded already, or it is for a device (or processor feature) that is
            // missing.
            Ok(()) | Err(Errno::EXIST | Errno::NODEV) => {}
            Err(errno) => log(&format!("cannot load {path}: {errno}")),
        }
    }
}
