//! Random passwords that satisfy the guest's own rules: pwquality.conf(5), or the PAM options that
//! replace it.
//!
//! Credits above 0 let characters of a class count for the length; they do not make the password
//! shorter here. The rules with limits (`maxrepeat`, `maxsequence`, `minclass`) need no values,
//! because the password satisfies the strictest: it has all classes, and no two neighbours are
//! equal or consecutive characters.

use super::super::super::accounts::pam;
use super::super::super::guest::Guest;
use diskfs_disk::Result;

const PWQUALITY: &str = "/etc/security/pwquality.conf";

/// The drop-in directory that is read before pwquality.conf, in the order of the file names.
const PWQUALITY_D: &str = "/etc/security/pwquality.conf.d";

/// The PAM modules that take the same settings as options.
const MODULES: [&str; 2] = ["pam_pwquality.so", "pam_cracklib.so"];

/// The default length, if the guest requires less, and the upper limit for the length that the
/// guest can require.
const LEN: usize = 16;
const MAX_LEN: usize = 128;

/// The four character classes. They leave out characters that are easily confused (`0O`, `1Il`) and
/// those with a special meaning in shells, YAML and URLs.
const CLASSES: [&[u8]; 4] = [
    b"abcdefghijkmnpqrstuvwxyz",
    b"ABCDEFGHJKLMNPQRSTUVWXYZ",
    b"23456789",
    b"-_.,+=@",
];

/// The keys of pwquality.conf that require characters of a class, in the order of the classes.
const CREDITS: [&str; 4] = ["lcredit", "ucredit", "dcredit", "ocredit"];

/// The requirements for a password.
struct Rules {
    len: usize,
    /// The least number of characters of each class.
    counts: [usize; 4],
    /// The largest number of consecutive characters of one class.
    run: usize,
}

/// Generates a password that satisfies the guest's rules.
pub(super) fn password(guest: &Guest) -> Result<String> {
    let rules = Rules::of(guest)?;
    let mut random = UniformRandom {
        guest,
        bytes: [0; 64],
        at: usize::MAX,
    };
    // The numbers of characters of each class: the required ones, then any.
    let mut left = rules.counts;
    while left.iter().sum::<usize>() < rules.len {
        // More of one class than of all others together could not be separated.
        let most = rules.len / 2;
        let mut open: Vec<_> = left.iter_mut().filter(|count| **count < most).collect();
        let at = random.below(open.len())?;
        let Some(count) = open.get_mut(at) else {
            break;
        };
        **count = count.saturating_add(1);
    }
    let mut text = String::new();
    let (mut last, mut run) = (usize::MAX, 0);
    while let Some(class) = next_class(&mut random, &left, (run >= rules.run).then_some(last))? {
        run = if class == last {
            run.saturating_add(1)
        } else {
            1
        };
        last = class;
        if let Some(count) = left.get_mut(class) {
            *count = count.saturating_sub(1);
        }
        text.push(char_of(&mut random, class, text.chars().next_back())?);
    }
    Ok(text)
}

/// Chooses the class of the next character at random from those that are left, and avoids `not`
/// where possible.
fn next_class(
    random: &mut UniformRandom<'_>,
    left: &[usize; 4],
    not: Option<usize>,
) -> Result<Option<usize>> {
    let all: usize = left.iter().sum();
    let is_allowed = |class: usize| not != Some(class) || left.get(class) == Some(&all);
    let classes = left.iter().enumerate();
    let classes: Vec<_> = classes
        .filter(|(class, count)| **count > 0 && is_allowed(*class))
        .collect();
    // A class with as many characters as all others together must take every second position.
    let urgent = classes
        .iter()
        .find(|(_, count)| count.saturating_mul(2) > all);
    if let Some((class, _)) = urgent {
        return Ok(Some(*class));
    }
    let sum: usize = classes.iter().map(|(_, count)| **count).sum();
    let mut at = random.below(sum)?;
    for (class, count) in classes {
        if at < *count {
            return Ok(Some(class));
        }
        at = at.saturating_sub(*count);
    }
    Ok(None)
}

/// Chooses a character that is neither equal nor adjacent (in ASCII) to the one before.
fn char_of(random: &mut UniformRandom<'_>, class: usize, before: Option<char>) -> Result<char> {
    let chars = CLASSES.get(class).copied().unwrap_or_default();
    let is_near = |char: u8| before.is_some_and(|it| u32::from(it).abs_diff(char.into()) < 2);
    let chars: Vec<u8> = chars.iter().copied().filter(|it| !is_near(*it)).collect();
    let at = random.below(chars.len())?;
    Ok(chars.get(at).copied().map_or('-', char::from))
}

impl Rules {
    fn of(guest: &Guest) -> Result<Self> {
        let settings = Settings::read(guest)?;
        let mut counts = [1_usize; 4];
        for (count, required) in counts.iter_mut().zip(settings.counts()?) {
            *count = required.unwrap_or(1).min(MAX_LEN / CLASSES.len());
        }
        let len = settings.positive("minlen")?.unwrap_or(LEN);
        Ok(Self {
            len: len.clamp(LEN, MAX_LEN),
            counts,
            run: settings.positive("maxclassrepeat")?.unwrap_or(usize::MAX),
        })
    }
}

/// The settings of pwquality in a guest.
struct Settings<'g> {
    guest: &'g Guest,
    texts: Vec<String>,
}

impl<'g> Settings<'g> {
    fn read(guest: &'g Guest) -> Result<Self> {
        let texts = texts(guest)?;
        Ok(Self { guest, texts })
    }

    fn value(&self, key: &str) -> Result<Option<i64>> {
        let word = pam::first_word(self.guest, &MODULES, |word| {
            word.strip_prefix(key)?.strip_prefix('=')?.parse().ok()
        })?;
        // The last value counts.
        Ok(word.or(self.texts.iter().rev().find_map(|text| number(text, key))))
    }

    /// Returns a limit; `None` if there is none, which 0 means, too.
    fn positive(&self, key: &str) -> Result<Option<usize>> {
        let value = self.value(key)?.filter(|value| *value > 0);
        Ok(value.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    /// Returns the required number of characters of each class. Values above 0 are credits for the
    /// length, which are ignored.
    fn counts(&self) -> Result<[Option<usize>; 4]> {
        let mut counts = [None; 4];
        for (count, key) in counts.iter_mut().zip(CREDITS) {
            let required = self.value(key)?.filter(|value| *value < 0);
            *count =
                required.map(|value| usize::try_from(value.unsigned_abs()).unwrap_or(usize::MAX));
        }
        Ok(counts)
    }
}

/// Returns true if a password breaks a rule that the guest sets. Dictionaries, names and former
/// passwords are not compared.
pub(super) fn is_refused(guest: &Guest, text: &str) -> Result<bool> {
    let settings = Settings::read(guest)?;
    let chars: Vec<char> = text.chars().collect();
    let mut has = [0_usize; 4];
    for char in &chars {
        if let Some(count) = has.get_mut(class_of(*char)) {
            *count = count.saturating_add(1);
        }
    }
    let lacks = |(has, required): (usize, Option<usize>)| required.is_some_and(|it| has < it);
    let classes = has.iter().filter(|count| **count > 0).count();
    let runs = [
        ("maxrepeat", longest_run(&chars, |a, b| a == b)),
        (
            "maxclassrepeat",
            longest_run(&chars, |a, b| class_of(a) == class_of(b)),
        ),
        ("maxsequence", longest_run(&chars, follows)),
        ("maxsequence", longest_run(&chars, |a, b| follows(b, a))),
    ];
    for (key, longest) in runs {
        if settings.positive(key)?.is_some_and(|most| longest > most) {
            return Ok(true);
        }
    }
    Ok(has.into_iter().zip(settings.counts()?).any(lacks)
        || lacks((chars.len(), settings.positive("minlen")?))
        || lacks((classes, settings.positive("minclass")?)))
}

/// Returns the class of a character, in the order of [`CREDITS`].
fn class_of(char: char) -> usize {
    match char {
        _ if char.is_lowercase() => 0,
        _ if char.is_uppercase() => 1,
        '0'..='9' => 2,
        _ => 3,
    }
}

fn follows(a: char, b: char) -> bool {
    u32::from(a).checked_add(1) == Some(u32::from(b))
}

/// Returns the length of the longest part in which each character and the next are `alike`.
fn longest_run(chars: &[char], alike: impl Fn(char, char) -> bool) -> usize {
    let runs = chars.chunk_by(|a, b| alike(*a, *b));
    runs.map(<[char]>::len).max().unwrap_or(0)
}

/// Reads the files in the order in which pwquality reads them.
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

/// Returns the last value of a key, as in `minlen = 12`.
fn number(text: &str, key: &str) -> Option<i64> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| {
        let line = line.split('#').next()?;
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().parse().ok())?
    })
}

/// A source of uniformly distributed numbers.
struct UniformRandom<'g> {
    guest: &'g Guest,
    bytes: [u8; 64],
    at: usize,
}

impl UniformRandom<'_> {
    /// Returns a number from 0 to `count - 1`. `count` is at most 256.
    fn below(&mut self, count: usize) -> Result<usize> {
        let count = count.clamp(1, 256);
        // Bytes from the last whole multiple of `count` on would make small numbers more likely.
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

    /// Uses real random numbers, unlike other tests.
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
    fn weak_passwords_are_refused() {
        let is_refused = |rules: &str, text: &str| {
            let guest = guest(&format!("-- /etc/security/pwquality.conf --\n{rules}\n"));
            is_refused(&guest, text).unwrap()
        };
        for (rules, weak, strong) in [
            ("minlen = 9", "12345678", "123456789"),
            ("dcredit = -2\nucredit = 1", "abcdefgh1", "abcdefgh12"),
            ("ocredit = -1", "abcDEF123", "abcDEF-123"),
            ("lcredit = -1\nucredit = -1", "ABC", "ABc"),
            ("minclass = 3", "abc123", "Abc123"),
            ("maxrepeat = 2", "baaac", "baacaa"),
            ("maxclassrepeat = 3", "abcd-1", "abc-d1"),
            ("maxsequence = 3", "x1234", "x123y"),
            ("maxsequence = 3", "xdcba", "xdcb"),
        ] {
            assert!(is_refused(rules, weak), "{rules}: {weak}");
            assert!(!is_refused(rules, strong), "{rules}: {strong}");
        }
        assert!(!is_refused("# nothing", "x"));
        let pam =
            "-- /etc/pam.d/common-password --\npassword requisite pam_pwquality.so minlen=30\n";
        assert!(super::is_refused(&guest(pam), "a-B1a-B1a-B1a-B1").unwrap());
        let hostile = "minlen = 99999999999\nmaxrepeat = -9\ndcredit = -9223372036854775808";
        assert!(is_refused(hostile, "a1"));
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
