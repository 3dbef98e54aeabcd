//! The shards of a fleet: its parts for several machines.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZero;
use std::str::FromStr;

/// One of the parts of a fleet, written as `INDEX/TOTAL`. The first index is 0, as with the indexed
/// jobs of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: usize,
    total: NonZero<usize>,
}

impl Shard {
    /// Keeps the things of this shard. The shards of a list have the same size (or one less), and
    /// things with the same key are in the same shard.
    pub(crate) fn retain<T, K: Hash + Eq>(self, things: &mut Vec<T>, key: impl Fn(&T) -> K) {
        let mut positions = HashMap::new();
        things.retain(|thing| {
            let next = positions.len();
            let position = *positions.entry(key(thing)).or_insert(next);
            position % self.total == self.index
        });
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || format!("`{text}` is not a shard: write INDEX/TOTAL, such as 0/4");
        let (index, total) = text.split_once('/').ok_or_else(invalid)?;
        let index = index.parse().map_err(|_| invalid())?;
        let total: NonZero<usize> = total.parse().map_err(|_| invalid())?;
        if index >= total.get() {
            let last = total.get() - 1;
            return Err(format!(
                "no such shard: the first of {total} is 0, the last is {last}"
            ));
        }
        Ok(Self { index, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str, things: &[&'static str]) -> Vec<&'static str> {
        let mut kept = things.to_vec();
        let shard: Shard = text.parse().unwrap();
        shard.retain(&mut kept, |thing| *thing);
        kept
    }

    #[test]
    fn shards_share_a_fleet_and_same_keys_stay_together() {
        let things = ["a", "b", "a", "c", "d", "b", "e"];
        assert_eq!(shard("0/1", &things), things);
        assert_eq!(shard("0/2", &things), ["a", "a", "c", "e"]);
        assert_eq!(shard("1/2", &things), ["b", "d", "b"]);
        assert_eq!(shard("6/7", &things), [""; 0]);
    }

    #[test]
    fn invalid_shards_are_refused() {
        for text in ["", "1", "2/2", "0/0", "-1/2", "1/", "a/b", "0/1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
