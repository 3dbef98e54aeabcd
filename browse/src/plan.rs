//! Plans of `deploy`: a dry run in an overlay that only the server knows, and the real run.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// The overlays of the last dry runs, in a private directory that is removed with the server.
#[derive(Debug)]
pub(crate) struct Previews {
    directory: TempDir,
    overlays: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// The overlay of an image, by the image's index.
    of_image: HashMap<usize, PathBuf>,
}

impl Previews {
    /// Makes the directory.
    ///
    /// # Errors
    /// Fails if it cannot be made.
    pub(crate) fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("diskfs-browse-")
            .tempdir()?;
        Ok(Self {
            directory,
            overlays: Mutex::default(),
        })
    }

    /// Returns a new name for an overlay.
    pub(crate) fn next(&self) -> PathBuf {
        let mut state = self.overlays.lock().unwrap_or_else(PoisonError::into_inner);
        state.count = state.count.saturating_add(1);
        self.directory.path().join(format!("{}.qcow2", state.count))
    }

    /// Keeps the overlay of a dry run, instead of the one before it.
    pub(crate) fn keep(&self, image: usize, overlay: PathBuf) {
        let mut state = self.overlays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = state.of_image.insert(image, overlay) {
            // A comparison that still reads it has it open; its directory is removed at the end.
            let _ = std::fs::remove_file(before);
        }
    }

    /// Returns the overlay of the last dry run of an image.
    pub(crate) fn of(&self, image: usize) -> Option<PathBuf> {
        let state = self.overlays.lock().unwrap_or_else(PoisonError::into_inner);
        state.of_image.get(&image).cloned()
    }
}

/// Returns the words that apply a plan, which is the standard input, to an image or an overlay of
/// it.
pub(crate) fn words(
    options: &[OsString],
    image: OsString,
    overlay: Option<&PathBuf>,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["deploy", "--json", "--plan=-"].map(Into::into).into();
    words.extend_from_slice(options);
    if let Some(overlay) = overlay {
        let mut option = OsString::from("--overlay=");
        option.push(overlay);
        words.push(option);
    }
    words.extend(["--".into(), image]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_dry_run_is_kept() {
        let previews = Previews::new().unwrap();
        assert_eq!(previews.of(0), None);
        let overlays = [previews.next(), previews.next()];
        for overlay in &overlays {
            std::fs::write(overlay, "").unwrap();
            previews.keep(0, overlay.clone());
        }
        assert_eq!(previews.of(0).as_ref(), Some(&overlays[1]));
        assert!(!overlays[0].exists() && overlays[1].exists());
        let directory = previews.directory.path().to_owned();
        drop(previews);
        assert!(!directory.exists());
    }
}
