//! The reading of the source of `diskfs convert`: its rate, and its damaged parts.

use std::num::NonZeroU64;
use std::sync::Arc;

use diskfs::block::BlockRead;
use diskfs::image::convert::{LostRange, Salvaged, Throttled};

/// The largest number of warnings about damaged parts.
const WARNINGS_MAX: usize = 100;

/// A disk that is copied.
pub(crate) struct Reading {
    device: Arc<dyn BlockRead>,
    salvaged: Option<Arc<Salvaged>>,
}

impl Reading {
    /// Reads a disk at most at this rate, in bytes per second; 0 is no limit.
    pub(crate) fn new(device: Arc<dyn BlockRead>, salvages: bool, rate: u64) -> Self {
        let salvaged = salvages.then(|| Arc::new(Salvaged::new(Arc::clone(&device))));
        let device = match &salvaged {
            Some(salvaged) => salvaged.clone(),
            None => device,
        };
        let device: Arc<dyn BlockRead> = match NonZeroU64::new(rate) {
            Some(rate) => Arc::new(Throttled::new(device, rate)),
            None => device,
        };
        Self { device, salvaged }
    }

    /// Returns the disk.
    pub(crate) fn device(&self) -> &Arc<dyn BlockRead> {
        &self.device
    }

    /// Returns the parts that could not be read; `None` if damaged parts are not salvaged.
    pub(crate) fn lost(&self) -> Option<Vec<LostRange>> {
        self.salvaged.as_ref().map(|salvaged| salvaged.lost())
    }

    /// Returns warnings about the parts that could not be read.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lost = self.lost().unwrap_or_default();
        let listed = lost.iter().take(WARNINGS_MAX).map(|range| {
            format!(
                "{} bytes at byte {} could not be read, and are zeroes in the copy: {}",
                range.len_bytes, range.offset, range.reason
            )
        });
        let mut warnings: Vec<String> = listed.collect();
        let more = lost.len().saturating_sub(warnings.len());
        let salvaged = self.salvaged.as_ref();
        if salvaged.is_some_and(|salvaged| salvaged.is_list_incomplete()) {
            warnings.push(format!("more than {more} other ranges could not be read"));
        } else if more > 0 {
            warnings.push(format!("{more} other ranges could not be read"));
        }
        warnings
    }
}
