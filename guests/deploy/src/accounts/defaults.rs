//! The defaults of useradd(8): login.defs(5) and `/etc/default/useradd`.

use super::super::stage::Stage;
use diskfs_disk::Result;

const LOGIN_DEFS: &str = "/etc/login.defs";
const USERADD: &str = "/etc/default/useradd";

/// The settings of both files.
#[derive(Debug)]
pub(in super::super) struct Defaults {
    login: String,
    useradd: String,
}

impl Defaults {
    /// Reads the files of the guest. Both may be missing.
    pub(in super::super) fn read(stage: &Stage) -> Result<Self> {
        Ok(Self {
            login: stage.text(LOGIN_DEFS)?.unwrap_or_default(),
            useradd: stage.text(USERADD)?.unwrap_or_default(),
        })
    }

    /// Returns a value of login.defs. The last setting of a key counts.
    pub(in super::super) fn login(&self, key: &str) -> Option<&str> {
        let mut lines = self.login.lines().rev();
        lines.find_map(|line| {
            let (name, value) = line.trim().split_once([' ', '\t', '='])?;
            let value = value.trim().trim_matches('"');
            (name == key && !value.is_empty()).then_some(value)
        })
    }

    /// Returns a value of login.defs as a number: decimal, octal with a leading 0, or hexadecimal
    /// with 0x, as in strtol(3).
    pub(in super::super) fn number(&self, key: &str) -> Option<u32> {
        let text = self.login(key)?;
        if let Some(digits) = text.strip_prefix("0x") {
            return u32::from_str_radix(digits, 16).ok();
        }
        match text.strip_prefix('0') {
            Some(digits) if !digits.is_empty() => u32::from_str_radix(digits, 8).ok(),
            _ => text.parse().ok(),
        }
    }

    /// Returns a value of login.defs as a boolean (yes or no).
    pub(in super::super) fn is_yes(&self, key: &str) -> Option<bool> {
        self.login(key)
            .map(|value| value.eq_ignore_ascii_case("yes"))
    }

    /// Returns a value of `/etc/default/useradd`.
    pub(in super::super) fn useradd(&self, key: &str) -> Option<&str> {
        let mut lines = self.useradd.lines().rev();
        lines.find_map(|line| {
            let (name, value) = line.trim().split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            (name == key && !value.is_empty()).then_some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found() {
        let defaults = Defaults {
            login: "#UID_MIN 5\nUID_MIN\t\t 1000\nUMASK 022\nX 0x10\nUSERGROUPS_ENAB yes\nEMPTY \n"
                .to_owned(),
            useradd: "# SHELL=/x\nSHELL=/bin/bash\nEXPIRE=\n".to_owned(),
        };
        assert_eq!(defaults.number("UID_MIN"), Some(1000));
        assert_eq!(defaults.number("UMASK"), Some(0o22));
        assert_eq!(defaults.number("X"), Some(16));
        assert_eq!(defaults.is_yes("USERGROUPS_ENAB"), Some(true));
        assert_eq!(defaults.login("EMPTY"), None);
        assert_eq!(defaults.useradd("SHELL"), Some("/bin/bash"));
        assert_eq!(defaults.useradd("EXPIRE"), None);
    }
}
