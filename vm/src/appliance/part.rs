//! The parts of the appliance, and whether they need to be built.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::boot_files::{Appliance, is_built_with, verify_checksum};

/// A part of the appliance that is built by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The filesystem programs.
    Tools,
    /// The files that QEMU boots.
    Qemu,
    /// The User Mode Linux kernel.
    Uml,
}

impl Part {
    /// All parts; the one that takes longest comes last.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Qemu, Self::Uml];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Qemu => "qemu",
            Self::Uml => "uml",
        }
    }

    /// Returns the file of this part if it need not be built: it is there and undamaged, and was
    /// built with this program's agent, if it has one.
    pub fn up_to_date(self, appliance: &Appliance) -> Option<PathBuf> {
        let (file, dir) = match self {
            Self::Tools => (appliance.tools().ok()?, None),
            Self::Qemu => {
                let kernel = appliance.qemu().ok()?.kernel;
                let dir = kernel.ancestors().nth(2).map(Path::to_owned);
                (kernel, dir)
            }
            Self::Uml => {
                let kernel = appliance.uml().ok()?;
                let dir = kernel.parent().map(Path::to_owned);
                (kernel, dir)
            }
        };
        verify_checksum(&file).ok()?;
        if let (Some(dir), Ok(agent)) = (dir, appliance.agent(None)) {
            return is_built_with(&dir, &agent).then_some(file);
        }
        Some(file)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_part_is_built_again() {
        let dir = tempfile::tempdir().unwrap();
        let appliance = Appliance::find(Some(dir.path()));
        let file = dir.path().join("tools");
        std::fs::write(&file, "programs").unwrap();
        assert_eq!(Part::Tools.up_to_date(&appliance), Some(file.clone()));
        crate::boot_files::write_checksum(&file).unwrap();
        std::fs::write(&file, "program").unwrap();
        assert_eq!(Part::Tools.up_to_date(&appliance), None);
    }
}
