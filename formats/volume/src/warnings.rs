//! Warnings: problems of a table that do not prevent its use.

/// A bounded list of warnings for the user: a malicious table can have tens of thousands of faults.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<String>,
    left_out: usize,
}

/// The largest number of warnings. Users do not read more; a table of 128 entries that all overlap
/// still fits.
const MAX_WARNINGS: usize = 256;

impl Warnings {
    pub(crate) fn push(&mut self, warning: impl Into<String>) {
        if self.kept.len() < MAX_WARNINGS {
            self.kept.push(warning.into());
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        let mut all = self.kept;
        if self.left_out > 0 {
            all.push(format!("{} more warnings left out", self.left_out));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_bounded() {
        let mut w = Warnings::default();
        (0..300).for_each(|n| w.push(n.to_string()));
        let all = w.into_vec();
        assert_eq!(all.len(), MAX_WARNINGS + 1);
        assert_eq!(all.last().unwrap(), "44 more warnings left out");
    }
}
