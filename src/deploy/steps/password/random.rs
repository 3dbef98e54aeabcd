//! Passwords that are made up, and that the guest's own rules take: pwquality.conf(5).

use super::super::super::guest::Guest;
use crate::Result;

const PWQUALITY: &str = "/etc/security/pwquality.conf";

/// How long one is where the guest asks for less, and where what it asks for ends.
const LEN: usize = 16;
const MAX_LEN: usize = 128;

/// The four classes of characters, without those that are mistaken for others (`0O`, `1Il`), and without what shells,
/// YAML and URLs take for theirs.
const CLASSES: [&[u8]; 4] = [
    b"abcdefghijkmnpqrstuvwxyz",
    b"ABCDEFGHJKLMNPQRSTUVWXYZ",
    b"23456789",
    b"-_.,+=@",
];

/// The keys of pwquality.conf that ask for characters of a class, in the order of the classes.
const CREDITS: [&str; 4] = ["lcredit", "ucredit", "dcredit", "ocredit"];

/// What a password has to have.
struct Rules {
    len: usize,
    /// Of each class at least so many.
    counts: [usize; 4],
}

/// A password by the rules of the guest. No character is there twice in a row.
pub(super) fn password(guest: &Guest) -> Result<String> {
    let rules = Rules::of(guest)?;
    let mut dice = Dice {
        guest,
        bytes: [0; 64],
        at: usize::MAX,
    };
    // The classes of its characters: those that are asked for, then any.
    let mut classes = Vec::new();
    for (class, count) in rules.counts.into_iter().enumerate() {
        classes.extend(std::iter::repeat_n(class, count));
    }
    while classes.len() < rules.len {
        classes.push(dice.below(CLASSES.len())?);
    }
    for at in (1..classes.len()).rev() {
        let other = dice.below(at.saturating_add(1))?;
        classes.swap(at, other);
    }
    let mut text = String::new();
    for class in classes {
        let chars = CLASSES.get(class).copied().unwrap_or_default();
        let mut at = dice.below(chars.len())?;
        if chars.get(at).copied().map(char::from) == text.chars().next_back() {
            at = at.saturating_add(1).checked_rem(chars.len()).unwrap_or(0);
        }
        text.extend(chars.get(at).copied().map(char::from));
    }
    Ok(text)
}

impl Rules {
    fn of(guest: &Guest) -> Result<Self> {
        let text = guest.stage.text(PWQUALITY)?.unwrap_or_default();
        let value = |key: &str| number(&text, key);
        let mut counts = [1_usize; 4];
        for (count, key) in counts.iter_mut().zip(CREDITS) {
            // Below 0 it is how many there must be; above, how much they count for the length, which is left alone.
            let wanted = value(key).filter(|value| *value < 0).unwrap_or(-1);
            let wanted = usize::try_from(wanted.unsigned_abs()).unwrap_or(MAX_LEN);
            *count = wanted.min(MAX_LEN / CLASSES.len());
        }
        let least = value("minlen").and_then(|value| usize::try_from(value).ok());
        let len = least.unwrap_or(LEN).clamp(LEN, MAX_LEN);
        Ok(Self { len, counts })
    }
}

/// The last value of a key: `minlen = 12`.
fn number(text: &str, key: &str) -> Option<i64> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| {
        let line = line.split('#').next()?;
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().parse().ok())?
    })
}

/// Numbers that are all as likely.
struct Dice<'g> {
    guest: &'g Guest,
    bytes: [u8; 64],
    at: usize,
}

impl Dice<'_> {
    /// One from 0 on, below `count`, which is at most 256.
    fn below(&mut self, count: usize) -> Result<usize> {
        let count = count.clamp(1, 256);
        // Bytes beyond the last whole multiple would make the first numbers likelier.
        let limit = 256_usize.saturating_sub(256_usize.checked_rem(count).unwrap_or(0));
        loop {
            let byte = usize::from(self.byte()?);
            if byte < limit {
                return Ok(byte.checked_rem(count).unwrap_or(0));
            }
        }
    }

    fn byte(&mut self) -> Result<u8> {
        if let Some(byte) = self.bytes.get(self.at) {
            self.at = self.at.saturating_add(1);
            return Ok(*byte);
        }
        self.bytes = self.guest.random()?;
        self.at = 1;
        Ok(self.bytes.first().copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::guest::Guest;
    use super::super::super::testing::guest;
    use super::*;

    /// With random numbers, which other tests have none of.
    fn random(txtar: &str) -> String {
        let guest = guest(txtar);
        password(&Guest::new(guest.stage.guest().clone())).unwrap()
    }

    fn count(text: &str, class: usize) -> usize {
        let is_of = |byte: &u8| CLASSES.get(class).unwrap().contains(byte);
        text.as_bytes().iter().filter(|byte| is_of(byte)).count()
    }

    #[test]
    fn all_classes_and_no_twins() {
        for _ in 0..100 {
            let text = random("-- /etc/passwd --\n");
            assert_eq!(text.len(), 16);
            assert!((0..4).all(|class| count(&text, class) > 0), "{text}");
            let mut pairs = text.as_bytes().windows(2);
            assert!(!pairs.any(|pair| pair.first() == pair.last()), "{text}");
        }
        assert_ne!(random("-- /a --\n"), random("-- /a --\n"));
    }

    #[test]
    fn the_rules_of_the_guest() {
        let rules = "-- /etc/security/pwquality.conf --\n# minlen = 99\nminlen = 24\ndcredit=-5\nocredit = -3 # x\nucredit = 2\n";
        let text = random(rules);
        assert_eq!(text.len(), 24);
        assert!(count(&text, 2) >= 5 && count(&text, 3) >= 3, "{text}");
        let hostile = "-- /etc/security/pwquality.conf --\nminlen = 99999999999\ndcredit = -9223372036854775808\n";
        assert_eq!(random(hostile).len(), 128);
    }
}
