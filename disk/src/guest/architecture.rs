//! Which processors the guest's programs are for: the head of an ELF file (`elf(5)`, System V ABI, "ELF
//! Header").

use std::io::{self, Read};

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

/// `e_machine`, whether it is of 64 bits, whether it is little-endian, and what it is called, as uname(1) has it.
const MACHINES: [(u16, bool, bool, &str); 20] = [
    (2, false, false, "sparc"),
    (3, false, true, "i386"),
    (8, false, false, "mips"),
    (8, false, true, "mipsel"),
    (8, true, false, "mips64"),
    (8, true, true, "mips64el"),
    (20, false, false, "ppc"),
    (21, true, false, "ppc64"),
    (21, true, true, "ppc64le"),
    (22, true, false, "s390x"),
    (22, false, false, "s390"),
    (40, false, true, "arm"),
    (40, false, false, "armeb"),
    (43, true, false, "sparc64"),
    (50, true, true, "ia64"),
    (62, true, true, "x86_64"),
    (183, true, true, "aarch64"),
    (243, false, true, "riscv32"),
    (243, true, true, "riscv64"),
    (258, true, true, "loongarch64"),
];

/// The part of the head that tells.
type Head = [u8; 20];

/// A program that tells, and the architecture.
pub fn of(filesystem: &Filesystem) -> Option<(&'static str, &'static str)> {
    PROGRAMS.iter().find_map(|program| {
        let mut head = Head::default();
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
        .take(size_of::<Head>() as u64)
        .read_to_end(&mut start)?;
    Ok(start.first_chunk().and_then(name))
}

fn name(head: &Head) -> Option<&'static str> {
    let [0x7f, b'E', b'L', b'F', class, order, .., a, b] = *head else {
        return None;
    };
    let is_little = order == 1;
    let machine = if is_little {
        u16::from_le_bytes([a, b])
    } else {
        u16::from_be_bytes([a, b])
    };
    let wanted = (machine, class == 2, is_little);
    let mut known = MACHINES.iter();
    known
        .find(|(machine, is_64, is_little, _)| (*machine, *is_64, *is_little) == wanted)
        .map(|(.., name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_program_tells() {
        let mut head = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0";
        assert_eq!(name(&head), Some("x86_64"));
        head[18] = 183;
        assert_eq!(name(&head), Some("aarch64"));
        (head[5], head[18], head[19]) = (2, 0, 22);
        assert_eq!(name(&head), Some("s390x"));
        head[0] = b'#';
        assert_eq!(name(&head), None);
    }
}
