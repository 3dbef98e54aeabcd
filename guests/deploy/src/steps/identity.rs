//! The steps `machine-id` and `random-seed`.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::stage::EntryKind;
use diskfs_disk::Result;

/// machine-id(5), and D-Bus's own copy.
const MACHINE_ID: &str = "/etc/machine-id";
const DBUS: &str = "/var/lib/dbus/machine-id";

/// The files in which systemd and others keep random bytes from one boot to the next, and the size
/// of a seed.
const SEEDS: [&str; 4] = [
    "/var/lib/systemd/random-seed",
    "/var/lib/urandom/random-seed",
    "/var/lib/misc/random-seed",
    "/var/lib/random-seed",
];
const SEED_BYTES: usize = 512;

/// The machine ID: 32 hexadecimal digits, or `reset`, so that the guest generates a new one at the
/// next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MachineId(pub String);

/// The new state of the saved random seed. Clones must not start with the same random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RandomSeed {
    /// Writes new random bytes each time.
    New,
    /// Removes the seed; the guest creates one at the next boot.
    Remove,
}

impl MachineId {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let id = self.0.replace('-', "").to_ascii_lowercase();
        let text = match &*id {
            "reset" => String::new(),
            id if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                format!("{id}\n")
            }
            _ => {
                let reason = format!(
                    "invalid machine ID `{}`: expected `reset` or 32 hexadecimal digits",
                    self.0
                );
                return Err(guest.invalid(reason));
            }
        };
        // systemd needs the file as a mount point for a temporary ID if the root filesystem is
        // read-only.
        if guest.stage.exists(MACHINE_ID)? || guest.has_systemd()? {
            guest.stage.write_text(MACHINE_ID, &text)?;
        }
        let dbus = guest.stage.link_entry(DBUS)?;
        if dbus.is_some_and(|entry| matches!(entry.kind, EntryKind::File(_))) {
            if text.is_empty() {
                guest.stage.remove(DBUS)?;
            } else {
                guest.stage.write_text(DBUS, &text)?;
            }
        }
        Ok(())
    }
}

impl RandomSeed {
    pub(in super::super) fn apply(self, guest: &mut Guest) -> Result<()> {
        let mut is_known = false;
        for path in SEEDS {
            if !guest.stage.is_file(path)? {
                continue;
            }
            is_known = true;
            match self {
                Self::New => seed(guest, path)?,
                Self::Remove => guest.stage.remove(path)?,
            }
        }
        if !is_known && self == Self::New && guest.stage.is_dir("/var/lib/systemd")? {
            seed(guest, SEEDS[0])?;
        }
        Ok(())
    }
}

fn seed(guest: &mut Guest, path: &str) -> Result<()> {
    let bytes: [u8; SEED_BYTES] = guest.random()?;
    guest.stage.write(path, bytes.to_vec())?;
    guest.stage.set_permissions(path, 0o600)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, attributes, guest, text};

    const GUEST: &str = "-- /etc/machine-id --\n0123456789abcdef0123456789abcdef\n-- /var/lib/dbus/machine-id --\n\
        0123456789abcdef0123456789abcdef\n-- /var/lib/systemd/random-seed --\nold\n-- /usr/lib/systemd/systemd --\n";

    #[test]
    fn a_clone_gets_its_own() {
        let guest = after(GUEST, "- machine-id: reset\n- random-seed: new");
        assert_eq!(guest.stage.text("/etc/machine-id").unwrap().unwrap(), "");
        assert!(!guest.stage.exists("/var/lib/dbus/machine-id").unwrap());
        let seed = guest.stage.bytes("/var/lib/systemd/random-seed").unwrap();
        assert_eq!(seed.unwrap(), [7; 512]);
        assert_eq!(
            attributes(&guest, "/var/lib/systemd/random-seed"),
            "0600 0:0"
        );
    }

    #[test]
    fn or_one_that_is_given() {
        let id = "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee";
        let guest_after = after(GUEST, &format!("- machine-id: {id}"));
        let expected = "aaaaaaaabbbbccccddddeeeeeeeeeeee\n";
        assert_eq!(text(&guest_after, "/etc/machine-id"), expected);
        assert_eq!(text(&guest_after, "/var/lib/dbus/machine-id"), expected);
        assert!(apply(&mut guest(GUEST), "- machine-id: abc").is_err());
    }
}
