//! The names of many files, and the check that a listing has each of them once.

use anyhow::{Context, Result, ensure};

/// A prime for [`scattered`], larger than the number of files of any filesystem here.
const STEP: u64 = 4_294_967_291;

/// Returns the name of a file: some are short, some are long.
pub(super) fn name(number: u64) -> String {
    let len = usize::try_from(number % 7).unwrap_or_default() * 6;
    format!("file-{number:08}{}", "-".repeat(len))
}

/// Returns the numbers below `count` in another order, each once.
pub(super) fn scattered(number: u64, count: u64) -> u64 {
    let place = u128::from(number) * u128::from(STEP) % u128::from(count.max(1));
    u64::try_from(place).unwrap_or_default()
}

/// The names that a listing has shown so far.
#[derive(Debug)]
pub(super) struct Seen {
    marks: Vec<bool>,
    count: u64,
}

impl Seen {
    /// Returns the check for the files below `count`.
    pub(super) fn of(count: u64) -> Result<Self> {
        Ok(Self {
            marks: vec![false; usize::try_from(count)?],
            count: 0,
        })
    }

    /// Adds a name.
    ///
    /// # Errors
    /// Fails if it is not one of the files, or not for the first time.
    pub(super) fn add(&mut self, found: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(found).into_owned();
        let digits = text.strip_prefix("file-").and_then(|rest| rest.get(..8));
        let number: u64 = digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(u64::MAX);
        ensure!(name(number) == text, "unexpected name `{text}`");
        let mark = self.marks.get_mut(usize::try_from(number)?);
        let mark = mark.with_context(|| format!("unexpected name `{text}`"))?;
        ensure!(!*mark, "name `{text}` is listed twice");
        *mark = true;
        self.count += 1;
        Ok(())
    }

    /// Fails unless all names have been added.
    pub(super) fn complete(&self) -> Result<()> {
        let missing = self.marks.iter().position(|mark| !mark);
        ensure!(missing.is_none(), "name {missing:?} is not listed");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_numbers_are_all_numbers() {
        let mut numbers: Vec<_> = (0..1000).map(|number| scattered(number, 1000)).collect();
        assert_ne!(numbers[1], 1);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_missing_and_a_second_name_are_found() {
        let mut seen = Seen::of(2).unwrap();
        seen.add(name(0).as_bytes()).unwrap();
        seen.add(name(0).as_bytes()).unwrap_err();
        seen.add(b"file-00000001").unwrap_err();
        seen.complete().unwrap_err();
        seen.add(name(1).as_bytes()).unwrap();
        seen.complete().unwrap();
        seen.add(name(2).as_bytes()).unwrap_err();
    }
}
