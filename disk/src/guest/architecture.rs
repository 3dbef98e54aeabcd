//! The processor that the guest's programs are for.

use std::io::{self, Read};

use diskfs_vfs::elf::{ElfHead, ElfMachine};

use crate::Filesystem;

/// Programs that every system has, or the first of which it has.
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

/// A program that tells, and the architecture.
pub fn of(filesystem: &Filesystem) -> Option<(&'static str, &'static str)> {
    PROGRAMS.iter().find_map(|program| {
        let mut head = ElfHead::default();
        let mut file = filesystem.open(program).ok()?;
        file.read_exact(&mut head).ok()?;
        Some((*program, name(&head)?))
    })
}

/// That of a program; `None` for what is none.
///
/// # Errors
/// What reading says.
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
