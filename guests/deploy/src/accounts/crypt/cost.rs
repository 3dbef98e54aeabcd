//! The cost of password hashes in a guest: the option `rounds=` of `pam_unix`, or login.defs(5).

use super::super::super::guest::Guest;
use super::super::defaults::Defaults;
use super::{MAX_ROUNDS, Method, YESCRYPT_MAX_BYTES, base64, method};
use diskfs_disk::Result;

/// The minimum and the default number of rounds of SHA-crypt.
const MIN_ROUNDS: u32 = 1000;
const USUAL_ROUNDS: u32 = 5000;

/// The cost factors of yescrypt. The default of libxcrypt is N = 4096 with blocks of 4 KiB, which
/// is 16 MiB.
const FACTORS: std::ops::RangeInclusive<u32> = 1..=11;
const USUAL_FACTOR: u32 = 5;

/// The cost of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super::super) enum Cost {
    /// The rounds of SHA-crypt; `None` for the default, which hashes do not mention.
    Rounds(Option<u32>),
    /// The cost factor of yescrypt.
    Yescrypt(u32),
}

impl Cost {
    /// Returns the cost that the guest uses. A cost that would make logins too slow is reduced,
    /// with a note.
    pub(in super::super::super) fn of(guest: &mut Guest, method: Method) -> Result<Self> {
        let defaults = Defaults::read(&guest.stage)?;
        let of_pam = method::rounds_of_pam(guest)?;
        let number = |key| defaults.number(key);
        if method == Method::Yescrypt {
            let asked = of_pam.or(number("YESCRYPT_COST_FACTOR"));
            let asked = asked.filter(|factor| FACTORS.contains(factor));
            let factor = asked.unwrap_or(USUAL_FACTOR);
            let most = FACTORS
                .rev()
                .find(|factor| bytes(*factor) <= YESCRYPT_MAX_BYTES);
            return Ok(Self::Yescrypt(at_most(
                guest,
                factor,
                most.unwrap_or(USUAL_FACTOR),
            )));
        }
        // pam_unix uses the larger value; shadow's tools choose any number between both.
        let both = [
            number("SHA_CRYPT_MIN_ROUNDS"),
            number("SHA_CRYPT_MAX_ROUNDS"),
        ];
        let asked = of_pam.or(both.into_iter().flatten().max());
        let asked = asked.filter(|count| *count != USUAL_ROUNDS);
        let count = asked.map(|count| at_most(guest, count.max(MIN_ROUNDS), MAX_ROUNDS));
        Ok(Self::Rounds(count))
    }
}

fn at_most(guest: &mut Guest, asked: u32, most: u32) -> u32 {
    if asked > most {
        guest.note(format!(
            "the guest hashes passwords with a cost of {asked}; the cost of this hash was \
             limited to {most}"
        ));
    }
    asked.min(most)
}

/// Returns the binary logarithm of N, and r, as chosen by `crypt_gensalt` of libxcrypt.
fn parameters(factor: u32) -> (u32, u32) {
    if factor < 3 {
        (factor.saturating_add(9), 8)
    } else {
        (factor.saturating_add(7), 32)
    }
}

fn bytes(factor: u32) -> u64 {
    let (log, r) = parameters(factor);
    let blocks = 1_u64.checked_shl(log).unwrap_or(u64::MAX);
    blocks.saturating_mul(u64::from(r).saturating_mul(128))
}

/// Returns the parameter string of a yescrypt hash: `j9T` for 5.
pub(super) fn of_yescrypt(factor: u32) -> String {
    let (log, r) = parameters(factor);
    // The values are stored minus one.
    let digit = |number: u32| base64::digit(number.saturating_sub(1));
    ['j']
        .into_iter()
        .chain(digit(log))
        .chain(digit(r))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::super::steps::testing::guest;
    use super::*;

    #[test]
    fn factors_are_as_libxcrypt_writes_them() {
        let told: Vec<String> = FACTORS.map(of_yescrypt).collect();
        let known = [
            "j75", "j85", "j7T", "j8T", "j9T", "jAT", "jBT", "jCT", "jDT", "jET", "jFT",
        ];
        assert_eq!(told, known);
    }

    #[test]
    fn guests_say_what_it_costs() {
        let cost = |txtar: &str, method| Cost::of(&mut guest(txtar), method).unwrap();
        let defs = "-- /etc/login.defs --\nSHA_CRYPT_MIN_ROUNDS 6000\nSHA_CRYPT_MAX_ROUNDS 8000\nYESCRYPT_COST_FACTOR 6\n";
        assert_eq!(cost(defs, Method::Sha512), Cost::Rounds(Some(8000)));
        assert_eq!(cost(defs, Method::Yescrypt), Cost::Yescrypt(6));
        let pam = format!(
            "{defs}-- /etc/pam.d/common-password --\npassword required pam_unix.so sha512 rounds=7000\n"
        );
        assert_eq!(cost(&pam, Method::Sha256), Cost::Rounds(Some(7000)));
        let small = "-- /etc/login.defs --\nSHA_CRYPT_MIN_ROUNDS 1\n";
        assert_eq!(cost(small, Method::Sha512), Cost::Rounds(Some(1000)));
        let usual = "-- /etc/login.defs --\nSHA_CRYPT_MIN_ROUNDS 5000\nYESCRYPT_COST_FACTOR 12\n";
        assert_eq!(cost(usual, Method::Sha512), Cost::Rounds(None));
        assert_eq!(cost(usual, Method::Yescrypt), Cost::Yescrypt(5));
        let hostile =
            "-- /etc/login.defs --\nSHA_CRYPT_MAX_ROUNDS 999999999\nYESCRYPT_COST_FACTOR 11\n";
        let mut guest = guest(hostile);
        assert_eq!(
            Cost::of(&mut guest, Method::Sha512).unwrap(),
            Cost::Rounds(Some(MAX_ROUNDS))
        );
        assert_eq!(
            Cost::of(&mut guest, Method::Yescrypt).unwrap(),
            Cost::Yescrypt(7)
        );
        assert_eq!(guest.report("password").notes.len(), 2);
    }
}
