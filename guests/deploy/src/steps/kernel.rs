//! The steps `sysctl` and `modules`: sysctl.d(5) and modules-load.d(5).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_line;
use diskfs_disk::Result;

const SYSCTL: &str = "/etc/sysctl.d/90-diskfs.conf";
const SYSCTL_ALONE: &str = "/etc/sysctl.conf";

const MODULES: &str = "/etc/modules-load.d/diskfs.conf";
const MODULES_ALONE: &str = "/etc/modules";

/// Kernel parameters and their values: `net.ipv4.ip_forward: "1"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Sysctl(pub BTreeMap<String, String>);

/// The names of kernel modules to load at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Modules(pub Vec<String>);

impl Sysctl {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let is_dir = guest.stage.is_dir("/etc/sysctl.d")?;
        let path = if is_dir || guest.has_systemd()? {
            SYSCTL
        } else {
            SYSCTL_ALONE
        };
        let mut text = guest.stage.text(path)?.unwrap_or_default();
        for (key, value) in &self.0 {
            let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/*".contains(&byte);
            if key.is_empty() || !key.bytes().all(is_key) || value.contains('\n') {
                return Err(guest.invalid(format!(
                    "invalid kernel parameter `{key}`: expected a name such as \
                     net.ipv4.ip_forward and a value of one line"
                )));
            }
            text = with_setting(&text, key, value);
        }
        guest.stage.write_with(path, &text, 0o644)
    }
}

/// Returns the text with the parameter set: at its existing line, or at the end.
fn with_setting(text: &str, key: &str, value: &str) -> String {
    let new = format!("{key} = {value}");
    let is_it = |line: &str| {
        let name = line.split('=').next().unwrap_or_default().trim();
        name.trim_start_matches('-').replace('/', ".") == key.replace('/', ".")
    };
    let mut out = String::with_capacity(text.len());
    let mut is_done = false;
    for line in text.split_inclusive('\n') {
        if !is_it(line) {
            out.push_str(line);
        } else if !is_done {
            is_done = true;
            out.push_str(&new);
            out.push('\n');
        }
    }
    if is_done { out } else { with_line(out, &new) }
}

impl Modules {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = if guest.has_systemd()? || guest.stage.is_dir("/etc/modules-load.d")? {
            MODULES
        } else {
            MODULES_ALONE
        };
        let mut text = guest.stage.text(path)?.unwrap_or_default();
        for module in &self.0 {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            if module.is_empty() || !module.bytes().all(is_good) {
                return Err(guest.invalid(format!(
                    "invalid module name `{module}`: expected letters, digits, - and _"
                )));
            }
            if !text.lines().any(|line| line.trim() == module) {
                text = with_line(text, module);
            }
        }
        guest.stage.write_with(path, &text, 0o644)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, text};

    #[test]
    fn settings_take_their_place() {
        let tree = "-- /etc/sysctl.d/90-diskfs.conf --\n# x\nvm.swappiness=60\nkernel.sysrq = 1\n";
        let steps = "- sysctl: {vm.swappiness: \"10\", net.ipv4.ip_forward: \"1\"}\n- modules: [br_netfilter, overlay]";
        let guest = after(tree, steps);
        assert_eq!(
            text(&guest, "/etc/sysctl.d/90-diskfs.conf"),
            "# x\nvm.swappiness = 10\nkernel.sysrq = 1\nnet.ipv4.ip_forward = 1\n"
        );
        assert_eq!(text(&guest, "/etc/modules"), "br_netfilter\noverlay\n");
    }
}
