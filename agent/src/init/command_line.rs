//! What the kernel's command line says to the agent.

use std::fs;

use rustix::system::RebootCommand;

/// The words that are for it.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// `diskfs.port=`: the file to speak through.
    pub(super) port: Option<String>,
    /// `diskfs.end=`: how the machine ends: `off` (if nothing is said), `restart` (QEMU with
    /// `-no-reboot` ends by it without ACPI) or `halt`.
    pub(super) end: RebootCommand,
    /// `diskfs.saved`: the machine is saved when it waits for its host, and is woken with disks that it has not
    /// seen.
    pub(super) is_saved: bool,
}

impl CommandLine {
    pub(super) fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/cmdline").unwrap_or_default())
    }

    fn parse(line: &str) -> Self {
        let value = |key: &str| {
            let mut words = line.split_whitespace().rev();
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        Self {
            port: value("diskfs.port").map(Into::into),
            end: match value("diskfs.end") {
                Some("restart") => RebootCommand::Restart,
                Some("halt") => RebootCommand::Halt,
                _ => RebootCommand::PowerOff,
            },
            is_saved: line.split_whitespace().any(|word| word == "diskfs.saved"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_ours_are_found_among_others() {
        let line = CommandLine::parse("quiet diskfs.port=/dev/hvc0 mem=256M diskfs.end=restart\n");
        assert_eq!(line.port.as_deref(), Some("/dev/hvc0"));
        assert_eq!(line.end, RebootCommand::Restart);
        let line = CommandLine::parse("xdiskfs.port=1 diskfs.ports=2");
        assert_eq!(line.port, None);
        assert_eq!(line.end, RebootCommand::PowerOff);
        assert!(!line.is_saved);
        assert!(CommandLine::parse("diskfs.saved quiet").is_saved);
    }
}
