//! Kernel modules that the initramfs brings along.

use crate::kernel_log::log;
use std::fs::{self, File};

use rustix::io::Errno;
use rustix::system::finit_module;

/// Where they are.
const DIR: &str = "/modules";

/// The modules' file names below [`DIR`], a line each, in the order in which they are loaded. With a
/// dot and a filesystem's name behind it, those that it takes: loading them may take longer than mounting.
const ORDER: &str = "/modules/order";

/// Loads those that are for all.
pub(super) fn load() {
    load_list(ORDER);
}

/// Loads those of a filesystem, as mount(2) names it.
pub(crate) fn load_for(kind: &str) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if kind.chars().all(is_name) {
        load_list(&format!("{ORDER}.{kind}"));
    }
}

/// Loads those of all filesystems, and forgets the files.
pub(super) fn load_all() {
    let lists = fs::read_dir(DIR).into_iter().flatten().flatten();
    for list in lists {
        let name = list.file_name();
        if let Some(kind) = name.to_str().and_then(|name| name.strip_prefix("order.")) {
            load_for(kind);
        }
    }
    fs::remove_dir_all(DIR).ok(); // It only takes room.
}

fn load_list(list: &str) {
    let Ok(order) = fs::read_to_string(list) else {
        return;
    };
    for name in order.lines().filter(|name| !name.is_empty()) {
        let path = format!("{DIR}/{name}");
        let Ok(file) = File::open(&path) else {
            log(&format!("{path} is missing"));
            continue;
        };
        match finit_module(&file, c"", 0) {
            // It is there, or for a device (or a processor) that isn't.
            Ok(()) | Err(Errno::EXIST | Errno::NODEV) => {}
            Err(errno) => log(&format!("{path} can't be loaded: {errno}")),
        }
    }
}
