//! Kernel modules that the initramfs brings along.

use std::fs::{self, File};

use rustix::io::Errno;
use rustix::system::finit_module;

/// The modules' file names below `/modules`, a line each, in the order in which they are loaded.
const ORDER: &str = "/modules/order";

/// Loads them.
pub(super) fn load() {
    let Ok(order) = fs::read_to_string(ORDER) else {
        return;
    };
    for name in order.lines().filter(|name| !name.is_empty()) {
        let path = format!("/modules/{name}");
        let Ok(file) = File::open(&path) else {
            super::log(&format!("{path} is missing"));
            continue;
        };
        match finit_module(&file, c"", 0) {
            // It is there, or for a device (or a processor) that isn't.
            Ok(()) | Err(Errno::EXIST | Errno::NODEV) => {}
            Err(errno) => super::log(&format!("{path} can't be loaded: {errno}")),
        }
    }
}
