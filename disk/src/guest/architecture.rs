//! The processor architecture of the guest's programs.

use std::io::{self, Read};

use diskfs_vfs::elf::{ElfHead, ElfMachine};

use crate::Filesystem;

/// Programs of which every system has at least one.
const PROGRAMS: [&str; 8] = [
    "/usr/lib/systemd/systemd",
    "/sbin/init",
    "/bin/sh",
    "/usr/bin/sh",
    "/bin/busybox",
    "/bin/bash",
    "/usr/bin/env",
    "/bin/ls",
];

/// Returns the path of a program of the system and the architecture that it is for.
pub fn of(filesystem: &Filesystem) -> Option<(&'static str, &'static str)> {
    PROGRAMS.iter().find_map(|program| {
        let mut head = ElfHead::default();
        let mut file = filesystem.open(program).ok()?;
        file.read_exact(&mut head).ok()?;
        Some((*program, name(&head)?))
    })
}

/// Returns the architecture of an ELF program, or `None` for another file.
///
/// # Errors
/// The errors of reading.
pub fn of_program(program: &mut impl Read) -> io::Result<Option<&'static str>> {
    let mut start = Vec::new();
    program
        .take(size_of::<ElfHead>() as u64)
        .read_to_end(&mut start)?;
    Ok(start.first_chunk().and_then(name))
}

fn name(head: &ElfHead) -> Option<&'static str> {
    ElfMachine::of(head)?.name()
}
