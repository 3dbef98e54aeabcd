//! Parsing of byte counts that users write.

/// Parses a number of bytes as `qemu-img` does: decimal, optionally with a fraction and a unit
/// (powers of 1024, in upper or lower case, also as `KiB`), or hexadecimal after `0x`.
///
/// # Errors
/// A text for the user.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("invalid number of bytes `{text}`; write 1048576, 0x100000, 1M or 1.5G");
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).map_err(|_| wrong());
    }
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = unit(text.get(number.len()..).unwrap_or_default()).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let whole = whole.checked_mul(unit).ok_or_else(wrong)?;
    whole.checked_add(part_of(unit, fraction)).ok_or_else(wrong)
}

/// Returns a decimal fraction of a unit, rounded down. The fraction has at most 18 digits.
fn part_of(unit: u64, digits: &str) -> u64 {
    let places = u32::try_from(digits.len()).unwrap_or(18);
    let value: u128 = digits.parse().unwrap_or(0);
    u64::try_from(value * u128::from(unit) / 10_u128.pow(places)).unwrap_or(u64::MAX)
}

fn unit(name: &str) -> Option<u64> {
    let name = name.strip_suffix("iB").unwrap_or(name);
    Some(match name {
        "" | "b" | "B" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        "p" | "P" => 1 << 50,
        "e" | "E" => 1 << 60,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_qemu_img() {
        for (text, bytes) in [
            ("0", 0),
            ("512b", 512),
            ("1048576", 1 << 20),
            ("0x100000", 1 << 20),
            ("1m", 1 << 20),
            ("1.5M", 3 << 19),
            ("0.1k", 102),
            ("2GiB", 2 << 30),
            ("15E", 15 << 60),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "M", "-1", "1.M", ".5M", "1Q", "0x", "0x1k", "16E", "1 M", "+1",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
