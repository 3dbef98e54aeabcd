//! The `SL` entry: a symlink's target (RRIP, 4.1.3).

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::susp::SystemUse;

/// The flag of a component that continues in the next component record, without a slash between
/// them.
const CONTINUE: u8 = 0x01;
const CURRENT: u8 = 0x02;
const PARENT: u8 = 0x04;
const ROOT: u8 = 0x08;

/// The maximum length of a target: `PATH_MAX` on Linux.
const MAX_BYTES: usize = 4096;

/// Returns the target of the symlink whose record is at `place`.
pub(crate) fn target(system_use: &SystemUse, place: u64) -> Result<Vec<u8>> {
    let mut target = LinkTarget::default();
    for data in system_use.all(b"SL") {
        // The flags of the entry say only whether another entry follows, so they are skipped.
        let mut components = data.get(1..).unwrap_or_default();
        while let [flags, len, rest @ ..] = components {
            let Some((text, after)) = rest.split_at_checked(usize::from(*len)) else {
                return Err(corrupt(
                    "invalid SL entry: a component ends after the entry",
                    place,
                ));
            };
            target.push(*flags, text, place)?;
            components = after;
        }
    }
    Ok(target.path)
}

/// The target so far.
#[derive(Debug, Default)]
struct LinkTarget {
    path: Vec<u8>,
    /// True if a slash must precede the next component.
    is_apart: bool,
}

impl LinkTarget {
    fn push(&mut self, flags: u8, text: &[u8], place: u64) -> Result<()> {
        if self.is_apart {
            self.path.push(b'/');
        }
        self.is_apart = flags & CONTINUE == 0;
        match flags & !CONTINUE {
            0 => self.path.extend_from_slice(text),
            CURRENT => self.path.push(b'.'),
            PARENT => self.path.extend_from_slice(b".."),
            ROOT => {
                self.path.push(b'/');
                self.is_apart = false;
            }
            other => {
                let reason = format!("unsupported SL component flags {other:#x}");
                return Err(Error::new(ErrorKind::Unsupported, reason).at(place));
            }
        }
        if self.path.len() > MAX_BYTES || text.contains(&0) {
            return Err(corrupt(
                "invalid symlink target: it is too long or has NUL",
                place,
            ));
        }
        Ok(())
    }
}
