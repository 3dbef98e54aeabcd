//! Messages to the kernel's log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// Writes a line to the kernel's log, which the console shows.
pub(crate) fn log(line: &str) {
    let message = format!("<4>diskfs-agent: {}\n", line.replace('\n', " "));
    let kernel_log = OpenOptions::new().write(true).open("/dev/kmsg");
    match kernel_log.and_then(|mut log: File| log.write_all(message.as_bytes())) {
        Ok(()) => {}
        Err(_) => {
            io::stderr().write_all(message.as_bytes()).ok();
        }
    }
}
