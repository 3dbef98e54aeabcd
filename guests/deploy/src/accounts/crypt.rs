//! Password hashes of crypt(5), of the kinds that are in use today: yescrypt (`$y$`), SHA-512
//! (`$6$`) and SHA-256 (`$5$`).
//!
//! The hashes equal those of libxcrypt. Salts have at most 16 characters: libxcrypt cuts longer
//! salts of `$6$`, so a login with a hash over a longer salt would always fail.

mod base64;
mod cost;
mod memory;
mod method;

use sha_crypt::Params as Rounds;

pub(in super::super) use cost::Cost;
pub(in super::super) use method::Method;

use super::super::guest::Guest;
use diskfs_disk::{Error, ErrorKind, Result};
use memory::HugeMemory;

/// The limit of libxcrypt on the length of a password: `CRYPT_MAX_PASSPHRASE_SIZE` without its NUL.
const PASSWORD_BYTES: usize = 511;

/// The maximum length of a salt of SHA-crypt.
const SHA_SALT_CHARS: usize = 16;

/// The limit on the rounds of a hash, so that a login does not take too long. Stored hashes with
/// more rounds are not checked.
const MAX_ROUNDS: u32 = 1_000_000;

/// The number of characters that encode the cost parameters of yescrypt.
const YESCRYPT_COST_CHARS: usize = 3;

/// The limit on the memory for a hash, whatever the guest asks for.
const YESCRYPT_MAX_BYTES: u64 = 64 << 20;

/// Checks that a password can be typed at a login prompt.
pub(in super::super) fn check(guest: &Guest, text: &str) -> Result<()> {
    if text.is_empty() {
        let error = guest.invalid("an empty password allows everybody to log in");
        return Err(error.with_hint("use `disabled` to disable password login"));
    }
    if text.contains(['\0', '\n', '\r']) {
        return Err(guest.invalid("invalid password: it contains a line break or a NUL"));
    }
    if text.len() > PASSWORD_BYTES {
        let reason = format!("the password is too long: at most {PASSWORD_BYTES} bytes");
        return Err(guest.invalid(reason));
    }
    Ok(())
}

/// Hashes a password with a new salt, at the cost that the guest uses.
pub(in super::super) fn hash(guest: &mut Guest, method: Method, text: &str) -> Result<String> {
    let salt = base64::encode(&guest.random::<16>()?);
    let hash = match Cost::of(guest, method)? {
        Cost::Yescrypt(factor) => yescrypt(text, &cost::of_yescrypt(factor), &salt),
        Cost::Rounds(count) => {
            // 16 of 22 characters, which are 96 bits.
            let salt = salt.get(..SHA_SALT_CHARS).unwrap_or_default();
            let again = count.map_or(salt.to_owned(), |count| format!("rounds={count}${salt}"));
            sha_again(method, text, again.split('$'))
        }
    };
    hash.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "cannot hash the password: unsupported parameters",
        )
    })
}

/// Returns true if a hash is of the password; `None` if the kind of the hash is not supported, or
/// if checking would take too long.
pub(in super::super) fn is_of(hash: &str, text: &str) -> Option<bool> {
    let mut fields = hash.strip_prefix('$')?.split('$');
    let again = match fields.next()? {
        "y" => yescrypt(text, fields.next()?, fields.next()?)?,
        "5" => sha_again(Method::Sha256, text, fields)?,
        "6" => sha_again(Method::Sha512, text, fields)?,
        _ => return None,
    };
    Some(again == hash)
}

/// Returns true if a text is a hash of some crypt(3): of DES, or `$` and a kind.
pub(in super::super) fn is_hash(text: &str) -> bool {
    let is_printed = text
        .chars()
        .all(|char| char.is_ascii_graphic() && !":;*!\\".contains(char));
    let is_des = text.len() == 13 && !text.contains('$');
    is_printed && (is_des || text.starts_with('$') && text.matches('$').count() >= 3)
}

fn sha_again<'h>(
    method: Method,
    text: &str,
    mut fields: impl Iterator<Item = &'h str>,
) -> Option<String> {
    let first = fields.next()?;
    let (prefix, rounds, salt) = match first.strip_prefix("rounds=") {
        Some(count) => {
            let count = count.parse().ok().filter(|count| *count <= MAX_ROUNDS)?;
            let rounds = Rounds::new(count).ok()?;
            (format!("rounds={count}$"), rounds, fields.next()?)
        }
        None => (String::new(), Rounds::default(), first),
    };
    let is_whole = salt.len() <= SHA_SALT_CHARS && text.len() <= PASSWORD_BYTES;
    is_whole.then(|| sha(method, text, &prefix, rounds, salt))
}

/// Returns a hash of SHA-crypt (<https://www.akkadia.org/drepper/SHA-crypt.txt>).
fn sha(method: Method, text: &str, prefix: &str, rounds: Rounds, salt: &str) -> String {
    let (text, bytes) = (text.as_bytes(), salt.as_bytes());
    if method == Method::Sha256 {
        let digest = sha_crypt::sha256_crypt(text, bytes, rounds);
        // 10 groups of 3 bytes. The bytes of a group are 10 apart, and each group starts 21 after
        // the one before.
        let order = mixed(30, 21).chain([30, 31]);
        format!("$5${prefix}{salt}${}", encoded(&digest, order))
    } else {
        let digest = sha_crypt::sha512_crypt(text, bytes, rounds);
        let order = mixed(63, 22).chain([63]);
        format!("$6${prefix}{salt}${}", encoded(&digest, order))
    }
}

/// Returns the order in which SHA-crypt encodes the first `count` bytes of its digest.
fn mixed(count: usize, step: usize) -> impl Iterator<Item = usize> {
    let third = count / 3;
    (0..third).flat_map(move |group| {
        [2, 1, 0].map(|part: usize| {
            (group * step + part * third)
                .checked_rem(count)
                .unwrap_or(0)
        })
    })
}

fn encoded(digest: &[u8], order: impl Iterator<Item = usize>) -> String {
    let bytes: Vec<u8> = order.filter_map(|at| digest.get(at).copied()).collect();
    base64::encode(&bytes)
}

/// Returns a hash of yescrypt, `$y$` (<https://www.openwall.com/yescrypt/>); `None` if the salt is
/// invalid or the cost is too high.
fn yescrypt(text: &str, cost: &str, salt: &str) -> Option<String> {
    // More characters would encode optional parameters, which are not used in practice.
    let cost = Some(cost).filter(|cost| cost.len() == YESCRYPT_COST_CHARS)?;
    let params: ::yescrypt::Params = cost.parse().ok()?;
    let block_bytes = u64::from(params.r()).checked_mul(128)?;
    if params.n().checked_mul(block_bytes)? > YESCRYPT_MAX_BYTES || text.len() > PASSWORD_BYTES {
        return None;
    }
    let mut digest = [0; 32];
    let bytes = base64::decode(salt)?;
    let mut memory = HugeMemory::zeroed(params.memory_words()?);
    let memory = memory.as_mut_slice();
    ::yescrypt::yescrypt_in(text.as_bytes(), &bytes, &params, memory, &mut digest).ok()?;
    Some(format!("$y${cost}${salt}${}", base64::encode(&digest)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use diskfs_fixtures::require;

    use super::super::super::steps::testing::guest;
    use super::*;

    /// Passwords to hash, including some that are difficult for shells, base64 or the block size of
    /// a hash.
    fn passwords() -> Vec<String> {
        let mut all: Vec<String> = ["", "x", "p\u{e4}ss w\u{f6}rd", "$`\"'\\$(id)", "a:b"]
            .map(str::to_owned)
            .into();
        all.extend([31, 32, 33, 63, 64, 65, 200].map(|len| "ab!".repeat(len).split_off(len * 2)));
        all
    }

    /// Returns the hash of the host's crypt(3), called through Perl.
    fn crypt(text: &str, setting: &str) -> String {
        let script = "binmode STDOUT; print crypt($ARGV[0], $ARGV[1])";
        let output = Command::new("perl")
            .args(["-e", script, text, setting])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The test vectors of SHA-crypt.txt, which include other numbers of rounds and salts that are
    /// cut.
    #[test]
    fn the_hashes_of_the_specification() {
        for (hash, text) in [
            (
                "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
                "Hello world!",
            ),
            (
                "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
                "Hello world!",
            ),
            (
                "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
                "Hello world!",
            ),
        ] {
            assert_eq!(is_of(hash, text), Some(true), "{hash}");
            assert_eq!(is_of(hash, "hello world!"), Some(false), "{hash}");
        }
    }

    #[test]
    fn what_takes_too_long_is_not_tried() {
        for hash in [
            "$6$rounds=999999999$salt$x",
            "$6$rounds=x$salt$x",
            "$6",
            "$6$seventeen_letters$x",
            "$y$jzT$abcdefgh$x",
            "$y$j9T$a$x",
            "$y$$$",
            "$1$abc$x",
            "$",
            "",
            "!",
        ] {
            assert_eq!(is_of(hash, "x"), None, "{hash}");
        }
    }

    #[test]
    fn crypt_of_this_machine_makes_the_same() {
        if require("perl").is_none() {
            return;
        }
        let mut usual = guest("-- /etc/passwd --\n");
        let defs = "-- /etc/login.defs --\nSHA_CRYPT_MIN_ROUNDS 6001\nYESCRYPT_COST_FACTOR 2\n";
        let mut costs = guest(defs);
        let factor = hash(&mut costs, Method::Yescrypt, "x").unwrap();
        assert!(factor.starts_with("$y$j85$"), "{factor}");
        let rounds = hash(&mut costs, Method::Sha256, "x").unwrap();
        assert!(rounds.starts_with("$5$rounds=6001$"), "{rounds}");
        for hash in [factor, rounds] {
            assert_eq!(crypt("x", &hash), hash);
        }
        for text in passwords() {
            for method in [Method::Sha512, Method::Sha256, Method::Yescrypt] {
                let hash = hash(&mut usual, method, &text).unwrap();
                assert_eq!(crypt(&text, &hash), hash, "{text}");
                assert!(is_hash(&hash));
                assert_eq!(is_of(&hash, &text), Some(true));
            }
        }
        // Settings of other programs: shorter salts and other costs.
        for setting in [
            "$y$j8T$abcdefgh",
            "$y$jAT$abcdefghijklmnopqrstu.",
            "$6$ab",
            "$5$rounds=1500$abc",
        ] {
            let theirs = crypt("x", setting);
            assert_eq!(is_of(&theirs, "x"), Some(true), "{theirs}");
        }
    }

    #[test]
    fn openssl_makes_the_same() {
        if require("openssl").is_none() {
            return;
        }
        let mut guest = guest("-- /etc/passwd --\n");
        let hash = hash(&mut guest, Method::Sha512, "secret word").unwrap();
        let salt = hash.split('$').nth(2).unwrap();
        let output = Command::new("openssl")
            .args(["passwd", "-6", "-salt", salt, "secret word"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), hash);
    }
}
