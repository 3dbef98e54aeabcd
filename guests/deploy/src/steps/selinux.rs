//! The step `selinux`.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_variable;
use diskfs_disk::Result;

const CONFIG: &str = "/etc/selinux/config";

/// The flag file that makes the guest relabel all files at the next boot: selinux(8).
const AUTORELABEL: &str = "/.autorelabel";

/// The `SELinux` settings of the guest. Even without this step, new files get the label from the
/// guest's policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Selinux {
    /// The mode from the next boot on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SelinuxMode>,
    /// Relabels all files at the next boot, which takes minutes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relabel: bool,
}

/// The `SELinux` mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SelinuxMode {
    /// Denies what the policy does not allow.
    Enforcing,
    /// Logs what the policy does not allow, without denying it.
    Permissive,
    /// Loads no policy.
    Disabled,
}

impl Selinux {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let Some(text) = guest.stage.text(CONFIG)? else {
            guest.note("SELinux is not installed in the guest: nothing was changed");
            return Ok(());
        };
        if let Some(mode) = self.mode {
            let mode = match mode {
                SelinuxMode::Enforcing => "enforcing",
                SelinuxMode::Permissive => "permissive",
                SelinuxMode::Disabled => "disabled",
            };
            let text = with_variable(&text, "SELINUX", mode);
            guest.stage.write_text(CONFIG, &text)?;
        }
        if self.relabel {
            guest.stage.write_text(AUTORELABEL, "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, text};

    #[test]
    fn the_mode_alone_changes() {
        let tree = "-- /etc/selinux/config --\n# SELINUX= can take\nSELINUX=enforcing\nSELINUXTYPE=targeted\n";
        let guest = after(tree, "- selinux: {mode: permissive, relabel: true}");
        let expected = "# SELINUX= can take\nSELINUX=permissive\nSELINUXTYPE=targeted\n";
        assert_eq!(text(&guest, "/etc/selinux/config"), expected);
        assert!(guest.stage.exists("/.autorelabel").unwrap());
    }

    #[test]
    fn who_has_none_gets_none() {
        let guest = after(
            "-- /etc/hostname --\na\n",
            "- selinux: {mode: disabled, relabel: true}",
        );
        assert!(guest.stage.changes().unwrap().is_empty());
    }
}
