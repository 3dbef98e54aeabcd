//! Sizes for people.

/// Formats a size as `ls -h` does: powers of 1024, one digit after the point below ten, rounded up.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = 1024_u128;
    let bytes = u128::from(bytes);
    for letter in UNITS {
        let tenths = (bytes * 10).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = bytes.div_ceil(unit);
        if whole < 1024 || letter == 'E' {
            return format!("{whole}{letter}");
        }
        unit *= 1024;
    }
    unreachable!("the last unit always returns")
}

/// Formats a size as `qemu-img info` does: `10 GiB`, with as many digits as matter.
pub(crate) fn units(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let exponent = bytes.checked_ilog2().unwrap_or(0) / 10;
    let unit = UNITS[usize::try_from(exponent).unwrap_or(0)];
    let divisor = 1_u128 << (10 * exponent);
    let hundredths = (u128::from(bytes) * 100 + divisor / 2) / divisor;
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => format!("{whole} {unit}"),
        (whole, part) if part % 10 == 0 => format!("{whole}.{} {unit}", part / 10),
        (whole, part) => format!("{whole}.{part:02} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_sizes_are_those_of_ls() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10_000, "9.8K"),
            (10_200, "10K"),
            (1_048_575, "1.0M"),
            (1 << 30, "1.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn sizes_with_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1536, "1.5 KiB"),
            (10 << 30, "10 GiB"),
            (196_624, "192.02 KiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(units(bytes), text);
        }
    }
}
