//! `SL`: a symlink's target (RRIP, 4.1.3).

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::susp::SystemUse;

/// The component goes on in the next record, without a slash between them.
const CONTINUE: u8 = 0x01;
const CURRENT: u8 = 0x02;
const PARENT: u8 = 0x04;
const ROOT: u8 = 0x08;

/// Linux's `PATH_MAX`: no target is longer.
const MAX_BYTES: usize = 4096;

/// The target of the symlink whose record is at `place`.
pub(crate) fn target(system_use: &SystemUse, place: u64) -> Result<Vec<u8>> {
    let mut target = Target::default();
    for data in system_use.all(b"SL") {
        // The flags of the entry tell only whether there is another.
        let mut components = data.get(1..).unwrap_or_default();
        while let [flags, len, rest @ ..] = components {
            let Some((text, after)) = rest.split_at_checked(usize::from(*len)) else {
                return Err(corrupt(
                    "component of a symlink ends behind its entry",
                    place,
                ));
            };
            target.push(*flags, text, place)?;
            components = after;
        }
    }
    Ok(target.path)
}

/// What is put together of the components.
#[derive(Debug, Default)]
struct Target {
    path: Vec<u8>,
    /// Whether the next component is set apart by a slash.
    is_apart: bool,
}

impl Target {
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
                let reason = format!("component of a symlink with flags {other:#x}");
                return Err(Error::new(ErrorKind::Unsupported, reason).at(place));
            }
        }
        if self.path.len() > MAX_BYTES || text.contains(&0) {
            return Err(corrupt("symlink's target is no path", place));
        }
        Ok(())
    }
}
