//! The agent's options on the kernel's command line.

use std::fs;

use rustix::system::RebootCommand;

/// The options of the agent.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// `diskfs.port=`: the file of the stream to the host.
    pub(super) port: Option<String>,
    /// `diskfs.end=`: the way to end the machine: `off` (the default), `restart` (which ends QEMU
    /// with `-no-reboot` even without ACPI) or `halt`.
    pub(super) end: RebootCommand,
    /// `diskfs.saved`: the machine's state is saved while it waits for its host. A machine that is
    /// restored from it has disks that it has not seen before.
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
