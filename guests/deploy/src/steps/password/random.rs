//! Passwords that are made up, and that the guest's own rules take: pwquality.conf(5), and what PAM says in its place.
//!
//! What it has a class of characters count for the length (credits above 0) makes it no shorter. Of all that is limited
//! (`maxrepeat`, `maxsequence`, `minclass`) each has less than any limit: all classes, and no two neighbours that are the
//! same or follow each other.

use super::super::super::accounts::pam;
use super::super::super::guest::Guest;
use diskfs_disk::Result;

const PWQUALITY: &str = "/etc/security/pwquality.conf";

/// What is read before it, by name.
const PWQUALITY_D: &str = "/etc/security/pwquality.conf.d";

/// What takes the same settings as words.
const MODULES: [&str; 2] = ["pam_pwquality.so", "pam_cracklib.so"];

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
    /// As many characters of one class may follow each other.
    run: usize,
}

/// A password by the rules of the guest.
pub(super) fn password(guest: &Guest) -> Result<String> {
    let rules = Rules::of(guest)?;
    let mut dice = Dice {
        guest,
        bytes: [0; 64],
        at: usize::MAX,
    };
    // How many of each class: those that are asked for, then any.
    let mut left = rules.counts;
    while left.iter().sum::<usize>() < rules.len {
        // More of one than of all others could not be kept apart.
        let most = rules.len / 2;
        let mut open: Vec<_> = left.iter_mut().filter(|count| **count < most).collect();
        let at = dice.below(open.len())?;
        let Some(count) = open.get_mut(at) else {
            break;
        };
        **count = count.saturating_add(1);
    }
    let mut text = String::new();
    let (mut last, mut run) = (usize::MAX, 0);
    while let Some(class) = next_class(&mut dice, &left, (run >= rules.run).then_some(last))? {
        run = if class == last {
            run.saturating_add(1)
        } else {
            1
        };
        last = class;
        if let Some(count) = left.get_mut(class) {
            *count = count.saturating_sub(1);
        }
        text.push(char_of(&mut dice, class, text.chars().next_back())?);
    }
    Ok(text)
}

/// The class of the next character, by chance among those that are left, and another than `not` where that can be.
fn next_class(dice: &mut Dice<'_>, left: &[usize; 4], not: Option<usize>) -> Result<Option<usize>> {
    let all: usize = left.iter().sum();
    let is_allowed = |class: usize| not != Some(class) || left.get(class) == Some(&all);
    let classes = left.iter().enumerate();
    let classes: Vec<_> = classes
        .filter(|(class, count)| **count > 0 && is_allowed(*class))
        .collect();
    // Of one that has as many as all others together, there must be one in each second place.
    let urgent = classes
        .iter()
        .find(|(_, count)| count.saturating_mul(2) > all);
    if let Some((class, _)) = urgent {
        return Ok(Some(*class));
    }
    let sum: usize = classes.iter().map(|(_, count)| **count).sum();
    let mut at = dice.below(sum)?;
    for (class, count) in classes {
        if at < *count {
            return Ok(Some(class));
        }
        at = at.saturating_sub(*count);
    }
    Ok(None)
}

/// A character that is neither the one before nor follows it.
fn char_of(dice: &mut Dice<'_>, class: usize, before: Option<char>) -> Result<char> {
    let chars = CLASSES.get(class).copied().unwrap_or_default();
    let is_near = |char: u8| before.is_some_and(|it| u32::from(it).abs_diff(char.into()) < 2);
    let chars: Vec<u8> = chars.iter().copied().filter(|it| !is_near(*it)).collect();
    let at = dice.below(chars.len())?;
    Ok(chars.get(at).copied().map_or('-', char::from))
}

impl Rules {
    fn of(guest: &Guest) -> Result<Self> {
        let texts = texts(guest)?;
        let value = |key: &str| -> Result<Option<i64>> {
            let word = pam::first_word(guest, &MODULES, |word| {
                word.strip_prefix(key)?.strip_prefix('=')?.parse().ok()
            })?;
            // What is read last counts.
            Ok(word.or(texts.iter().rev().find_map(|text| number(text, key))))
        };
        let mut counts = [1_usize; 4];
        for (count, key) in counts.iter_mut().zip(CREDITS) {
            // Below 0 it is how many there must be; above, how much they count for the length, which is left alone.
            let wanted = value(key)?.filter(|value| *value < 0).unwrap_or(-1);
            let wanted = usize::try_from(wanted.unsigned_abs()).unwrap_or(MAX_LEN);
            *count = wanted.min(MAX_LEN / CLASSES.len());
        }
        let least = value("minlen")?.and_then(|value| usize::try_from(value).ok());
        let len = least.unwrap_or(LEN).clamp(LEN, MAX_LEN);
        let run = value("maxclassrepeat")?.and_then(|value| usize::try_from(value).ok());
        Ok(Self {
            len,
            counts,
            // 0 is any.
            run: run.filter(|run| *run > 0).unwrap_or(usize::MAX),
        })
    }
}

/// The files, in the order that they are read.
fn texts(guest: &Guest) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    if guest.stage.is_dir(PWQUALITY_D)? {
        let names = guest.stage.names(PWQUALITY_D)?;
        let is_conf = |name: &str| {
            name.rsplit_once('.')
                .is_some_and(|(_, kind)| kind == "conf")
        };
        for name in names.iter().filter(|name| is_conf(name)) {
            texts.extend(guest.stage.text(&format!("{PWQUALITY_D}/{name}"))?);
        }
    }
    texts.extend(guest.stage.text(PWQUALITY)?);
    Ok(texts)
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

    #[test]
    fn the_rules_of_pam_and_of_drop_ins() {
        let drop_in = "-- /etc/security/pwquality.conf.d/a.conf --\nminlen = 20\ndcredit = -4\n-- /etc/security/pwquality.conf --\nminlen = 18\n";
        let text = random(drop_in);
        assert_eq!((text.len(), count(&text, 2) >= 4), (18, true), "{text}");
        let pam = "-- /etc/pam.d/system-auth --\npassword requisite pam_pwquality.so try_first_pass minlen=30 ucredit=-9\n";
        let text = random(&format!("{drop_in}{pam}"));
        assert_eq!((text.len(), count(&text, 1) >= 9), (30, true), "{text}");
    }

    #[test]
    fn no_run_is_longer_than_it_may_be() {
        for (rule, longest) in [
            ("maxclassrepeat = 1\nminlen = 128\ndcredit = -32", 1),
            ("maxclassrepeat = 2", 2),
            ("maxsequence = 2\nmaxrepeat = 1", 16),
        ] {
            for _ in 0..50 {
                let text = random(&format!("-- /etc/security/pwquality.conf --\n{rule}\n"));
                let class = |byte: &u8| CLASSES.iter().position(|class| class.contains(byte));
                let mut runs = text.as_bytes().chunk_by(|a, b| class(a) == class(b));
                assert!(runs.all(|run| run.len() <= longest), "{rule}: {text}");
                let mut pairs = text.as_bytes().windows(2);
                assert!(pairs.all(|pair| pair[0].abs_diff(pair[1]) > 1), "{text}");
            }
        }
    }
}
