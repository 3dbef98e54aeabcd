//! `/etc/selinux/config`: the selected policy and its mode.

use crate::lines::{is_space, lines};

/// The policy type of a system that does not set one.
const DEFAULT_TYPE: &str = "targeted";

/// The mode of SELinux, the value of `SELINUX=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Actions that the policy forbids are denied.
    Enforcing,
    /// Actions that the policy forbids are logged only.
    Permissive,
    /// SELinux is off.
    Disabled,
}

/// The settings, as libselinux reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The first valid `SELINUX=`. The key must be at the start of the line and in capitals. The
    /// value can have any case, and the rest of the line is ignored.
    pub mode: Option<Mode>,
    /// The last `SELINUXTYPE=`, in any case; `targeted` if there is none.
    pub policy_type: String,
}

impl Config {
    /// Parses the text of the file. Unknown lines are ignored, as in libselinux.
    pub fn parse(text: &[u8]) -> Self {
        let policy_type = lines(text)
            .filter_map(|line| policy_type(line.bytes))
            .last();
        Self {
            mode: lines(text).find_map(|line| mode(line.bytes)),
            policy_type: policy_type.unwrap_or_else(|| DEFAULT_TYPE.to_owned()),
        }
    }

    /// Returns the directory with the policy's texts; `None` if the policy type is not a valid file
    /// name, because the path would then lead elsewhere.
    pub fn contexts_directory(&self) -> Option<String> {
        let name = self.policy_type.as_str();
        let leads_elsewhere = matches!(name, "" | "." | "..") || name.contains(['/', '\u{fffd}']);
        (!leads_elsewhere && name.len() <= 255)
            .then(|| format!("/etc/selinux/{name}/contexts/files"))
    }
}

fn mode(line: &[u8]) -> Option<Mode> {
    let value = trimmed_start(line.strip_prefix(b"SELINUX=")?);
    let says = |word: &[u8]| {
        let start = value.get(..word.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if says(b"enforcing") {
        Some(Mode::Enforcing)
    } else if says(b"permissive") {
        Some(Mode::Permissive)
    } else {
        says(b"disabled").then_some(Mode::Disabled)
    }
}

fn policy_type(line: &[u8]) -> Option<String> {
    const TAG: &[u8] = b"SELINUXTYPE=";
    let (tag, value) = trimmed_start(line).split_at_checked(TAG.len())?;
    if !tag.eq_ignore_ascii_case(TAG) {
        return None;
    }
    let value = trimmed_start(value);
    let end = value
        .iter()
        .rposition(|byte| !is_space(*byte) && !byte.is_ascii_control())
        .map_or(0, |last| last.saturating_add(1));
    let value = value.get(..end).unwrap_or_default();
    Some(String::from_utf8_lossy(value).into_owned())
}

fn trimmed_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !is_space(*byte));
    start
        .and_then(|start| bytes.get(start..))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(text: &str) -> Option<Mode> {
        Config::parse(text.as_bytes()).mode
    }

    fn type_of(text: &str) -> String {
        Config::parse(text.as_bytes()).policy_type
    }

    #[test]
    fn the_mode_is_the_first_that_says_something() {
        assert_eq!(mode_of("SELINUX=enforcing\n"), Some(Mode::Enforcing));
        assert_eq!(mode_of("SELINUX= \tPermissive # x"), Some(Mode::Permissive));
        assert_eq!(mode_of("SELINUX=DISABLEDx"), Some(Mode::Disabled));
        let text = "#SELINUX=disabled\n SELINUX=disabled\nselinux=disabled\nSELINUX=x\n";
        assert_eq!(mode_of(text), None);
        let text = format!("{text}SELINUX=permissive\nSELINUX=enforcing\n");
        assert_eq!(mode_of(&text), Some(Mode::Permissive));
        assert_eq!(mode_of(""), None);
    }

    #[test]
    fn the_type_is_the_last() {
        assert_eq!(
            type_of("SELINUXTYPE=mls\n\t selinuxType=  default \r\n"),
            "default"
        );
        assert_eq!(type_of("# SELINUXTYPE=mls\nSELINUX=enforcing"), "targeted");
        assert_eq!(type_of("SELINUXTYPE=a b\x01 "), "a b");
        assert_eq!(type_of("SELINUXTYPE=mls\nSELINUXTYPE="), "");
        assert_eq!(type_of("SELINUXTYPE"), "targeted");
    }

    #[test]
    fn a_type_that_leads_elsewhere_has_no_directory() {
        for value in ["", ".", "..", "../../tmp", "/", "a/b", "\u{fffd}"] {
            let config = Config::parse(format!("SELINUXTYPE={value}").as_bytes());
            assert_eq!(config.contexts_directory(), None, "{value}");
        }
        let config = Config::parse(b"SELINUXTYPE=\xff");
        assert_eq!(config.contexts_directory(), None);
        let config = Config::parse(b"");
        let directory = config.contexts_directory().unwrap();
        assert_eq!(directory, "/etc/selinux/targeted/contexts/files");
    }
}
