//! The SELinux configuration (selinux(8), `/etc/selinux/config`).

use serde::Serialize;

use super::files::Files;
use diskfs_etc::shell::assigned;

const PATH: &str = "/etc/selinux/config";

/// The SELinux configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Selinux {
    /// The mode: `enforcing`, `permissive` or `disabled`.
    pub mode: String,
    /// The policy: `targeted`.
    pub policy: Option<String>,
    /// True if the next boot relabels all files.
    pub relabels: bool,
}

/// Reads the configuration.
pub(super) fn of(files: &Files<'_>) -> Option<Selinux> {
    let text = files.text(PATH)?;
    let (line, mode) = assigned(&text, "SELINUX")?;
    files.add_source("selinux", PATH, Some(line));
    Some(Selinux {
        mode: mode.to_ascii_lowercase(),
        policy: assigned(&text, "SELINUXTYPE").map(|(_, policy)| policy),
        relabels: files.exists("/.autorelabel"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn modes() {
        let tree = guest(&[
            (
                PATH,
                "# SELINUX=x\nSELINUX=enforcing\nSELINUXTYPE=targeted\n",
            ),
            ("/.autorelabel", ""),
        ]);
        let found = of(&Files::new(&tree)).unwrap();
        assert_eq!(
            (&*found.mode, found.policy.as_deref()),
            ("enforcing", Some("targeted"))
        );
        assert!(found.relabels);
    }
}
