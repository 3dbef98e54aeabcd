//! The processor of a program: the head of an ELF file (`elf(5)`, System V ABI, "ELF Header").

/// Each processor: `e_machine`, true for 64 bits, true for little-endian, and its name in uname(1).
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

/// The part of a program's head that identifies its processor.
pub type ElfHead = [u8; 20];

/// The processor that a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfMachine {
    number: u16,
    is_64: bool,
    is_little: bool,
}

impl ElfMachine {
    /// Returns the processor of a program; `None` for a file that is not ELF.
    pub fn of(head: &ElfHead) -> Option<Self> {
        let [0x7f, b'E', b'L', b'F', class, order, .., a, b] = *head else {
            return None;
        };
        let is_little = order != 2;
        let number = if is_little {
            u16::from_le_bytes([a, b])
        } else {
            u16::from_be_bytes([a, b])
        };
        Some(Self {
            number,
            is_64: class == 2,
            is_little,
        })
    }

    /// Returns the number of the processor, `e_machine`.
    pub fn number(self) -> u16 {
        self.number
    }

    /// Returns the name in uname(1), if it is known.
    pub fn name(self) -> Option<&'static str> {
        let wanted = (self.number, self.is_64, self.is_little);
        let mut known = MACHINES.iter();
        known
            .find(|(number, is_64, is_little, _)| (*number, *is_64, *is_little) == wanted)
            .map(|(.., name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_program_tells() {
        let name = |head: &ElfHead| ElfMachine::of(head).and_then(ElfMachine::name);
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
