//! The step `serial-console`: a login prompt on a serial line.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_line;
use super::kernel_arguments::KernelArguments;
use super::units;
use diskfs_disk::Result;

/// The table of processes that busybox and System V init start, and the list of terminals where
/// root may log in.
const INITTAB: &str = "/etc/inittab";
const SECURETTY: &str = "/etc/securetty";

/// The template of systemd's units for serial consoles.
const SERIAL_GETTY: &str = "serial-getty@.service";

/// A serial device with a login prompt, and by default with the kernel's console output, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SerialConsole {
    /// The serial device: `ttyS0`, `ttyAMA0` on Arm, `hvc0` on paravirtual machines.
    pub tty: String,
    /// The baud rate; default: 115200.
    #[serde(default = "usual_baud")]
    pub baud: u32,
    /// Adds the device to the kernel's consoles (`console=` arguments); default: true.
    #[serde(default = "yes")]
    pub kernel: bool,
}

fn usual_baud() -> u32 {
    115_200
}

fn yes() -> bool {
    true
}

impl SerialConsole {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let is_tty = |byte: u8| byte.is_ascii_alphanumeric();
        if self.tty.is_empty() || self.tty.len() > 16 || !self.tty.bytes().all(is_tty) {
            return Err(guest.invalid(format!(
                "invalid serial device `{}`: expected a name such as ttyS0",
                self.tty
            )));
        }
        if self.kernel {
            let add = vec![
                "console=tty0".to_owned(),
                format!("console={},{}n8", self.tty, self.baud),
            ];
            let remove = Vec::new();
            KernelArguments { add, remove }.apply(guest)?;
        }
        if guest.unit(SERIAL_GETTY)?.is_some() {
            return units::enable(guest, &format!("serial-getty@{}.service", self.tty));
        }
        self.in_inittab(guest)?;
        match guest.stage.text(SECURETTY)? {
            Some(text) if !text.lines().any(|line| line.trim() == self.tty) => {
                let text = with_line(text, &self.tty);
                guest.stage.write_text(SECURETTY, &text)
            }
            _ => Ok(()),
        }
    }

    /// Adds the entry for the serial line. It replaces an entry that is commented out.
    fn in_inittab(&self, guest: &mut Guest) -> Result<()> {
        let Some(text) = guest.stage.text(INITTAB)? else {
            guest.note(
                "cannot enable a login on a serial console: the guest has neither systemd nor \
                 /etc/inittab",
            );
            return Ok(());
        };
        let (tty, baud) = (&self.tty, self.baud);
        // busybox has the device name where System V init has the ID of the entry.
        let is_busybox = text.lines().any(|line| line.starts_with("::"));
        let new = if is_busybox {
            format!("{tty}::respawn:/sbin/getty -L {baud} {tty} vt100")
        } else {
            format!("T0:23:respawn:/sbin/getty -L {tty} {baud} vt100")
        };
        let is_it = |line: &str| {
            let content = line.trim_start_matches(['#', ' ']);
            content.contains("getty") && content.split([' ', ':']).any(|word| word == tty)
        };
        if text
            .lines()
            .any(|line| is_it(line) && !line.starts_with('#'))
        {
            return Ok(());
        }
        let Some(old) = text.split_inclusive('\n').find(|line| is_it(line)) else {
            return guest.stage.write_text(INITTAB, &with_line(text, &new));
        };
        let text = text.replacen(old, &format!("{new}\n"), 1);
        guest.stage.write_text(INITTAB, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest, text};

    const STEP: &str = "- serial-console: {tty: ttyS0}";

    #[test]
    fn a_unit_and_an_argument() {
        let tree = "-- /lib/systemd/systemd --\nELF\n-- /lib/systemd/system/serial-getty@.service --\n[Install]\nWantedBy=getty.target\n\
            -- /etc/default/grub --\nGRUB_CMDLINE_LINUX=\"\"\n";
        let guest = after(tree, STEP);
        let link = "/etc/systemd/system/getty.target.wants/serial-getty@ttyS0.service";
        assert!(guest.stage.link_entry(link).unwrap().is_some());
        let expected = "GRUB_CMDLINE_LINUX=\"console=tty0 console=ttyS0,115200n8\"\n";
        assert_eq!(text(&guest, "/etc/default/grub"), expected);
    }

    #[test]
    fn a_line_of_inittab() {
        let tree = "-- /etc/inittab --\n::sysinit:/sbin/openrc sysinit\ntty1::respawn:/sbin/getty 38400 tty1\n#ttyS0::respawn:/sbin/getty -L 0 ttyS0 vt100\n\
            -- /etc/securetty --\ntty1\n-- /etc/kernel/cmdline --\nro\n";
        let guest = after(tree, STEP);
        let line = "ttyS0::respawn:/sbin/getty -L 115200 ttyS0 vt100\n";
        let inittab = text(&guest, "/etc/inittab");
        assert!(
            inittab.ends_with(line) && !inittab.contains('#'),
            "{inittab}"
        );
        assert_eq!(text(&guest, "/etc/securetty"), "tty1\nttyS0\n");
    }

    #[test]
    fn a_line_is_a_name() {
        let step = "- serial-console: {tty: \"ttyS0 x\"}";
        assert!(apply(&mut guest("-- /etc/inittab --\nx\n"), step).is_err());
    }
}
