//! The processor architecture, from the registry or from the header of the kernel (Microsoft, "PE
//! Format", "COFF File Header").

use std::io::{Read, Seek, SeekFrom};

use super::hives::Hives;
use diskfs_disk::guest::in_any_case;

/// The value of `PROCESSOR_ARCHITECTURE`, `IMAGE_FILE_MACHINE_*`, and the name in uname(1).
const ARCHITECTURES: [(&str, u16, &str); 5] = [
    ("AMD64", 0x8664, "x86_64"),
    ("x86", 0x014c, "i386"),
    ("ARM64", 0xaa64, "aarch64"),
    ("ARM", 0x01c4, "arm"),
    ("IA64", 0x0200, "ia64"),
];

/// Programs that every Windows has.
const PROGRAMS: [&str; 2] = ["System32/ntoskrnl.exe", "explorer.exe"];

pub(super) fn of(hives: &Hives<'_>) -> Option<String> {
    let environment = r"Control\Session Manager\Environment";
    let set = hives.control_text("architecture", environment, "PROCESSOR_ARCHITECTURE");
    let named = |name: &String| {
        let mut known = ARCHITECTURES.iter();
        known.find(|(set, ..)| set.eq_ignore_ascii_case(name))
    };
    let found = set.as_ref().and_then(named).map(|(.., name)| *name);
    found.or_else(|| of_programs(hives)).map(str::to_owned)
}

fn of_programs(hives: &Hives<'_>) -> Option<&'static str> {
    let files = hives.files();
    PROGRAMS.iter().find_map(|program| {
        let path = format!("{}/{program}", hives.root());
        let path = in_any_case(files.filesystem(), &path)?;
        let name = of_machine(machine(&mut files.filesystem().open(&path).ok()?)?)?;
        files.add_source("architecture", &path, None);
        Some(name)
    })
}

fn of_machine(machine: u16) -> Option<&'static str> {
    let mut known = ARCHITECTURES.iter();
    known
        .find(|(_, number, _)| *number == machine)
        .map(|(.., name)| *name)
}

/// Returns the machine type of a program.
fn machine(file: &mut (impl Read + Seek)) -> Option<u16> {
    let mut place = [0; 4];
    file.seek(SeekFrom::Start(0x3c)).ok()?;
    file.read_exact(&mut place).ok()?;
    file.seek(SeekFrom::Start(u32::from_le_bytes(place).into()))
        .ok()?;
    let mut head = [0; 6];
    file.read_exact(&mut head).ok()?;
    let [b'P', b'E', 0, 0, low, high] = head else {
        return None;
    };
    Some(u16::from_le_bytes([low, high]))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_head_of_a_program_tells() {
        let mut program = vec![0; 0x90];
        program[..2].copy_from_slice(b"MZ");
        program[0x3c] = 0x80;
        program[0x80..0x86].copy_from_slice(b"PE\0\0\x64\x86");
        assert_eq!(
            machine(&mut Cursor::new(&program)).and_then(of_machine),
            Some("x86_64")
        );
        program[0x3f] = 0x80;
        assert_eq!(machine(&mut Cursor::new(&program)), None);
        assert_eq!(machine(&mut Cursor::new(b"MZ")), None);
    }
}
