//! Sizes as qemu-img prints them.

/// The units, each 1024 times the one before it.
const UNITS: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Returns a size with at most three digits, as in `1.21 MiB`: the largest unit of which there is
/// 0.977 at least.
pub(super) fn human(bytes: u64) -> String {
    let mut unit = 0_usize;
    let mut divisor = 1_u64;
    // 1000 of a unit are written as a part of the next.
    while unit < 6 && u128::from(bytes) >= u128::from(divisor) * 1000 {
        unit = unit.saturating_add(1);
        divisor = divisor.saturating_mul(1024);
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    format!("{} {name}B", three_digits(bytes, divisor))
}

/// Formats a quotient below 1000 with three significant digits, without zeroes at the end, as
/// `%.3g` does.
fn three_digits(bytes: u64, divisor: u64) -> String {
    let (bytes, divisor) = (u128::from(bytes), u128::from(divisor).max(1));
    let decimals = match bytes / divisor {
        100.. => 0_usize,
        10..100 => 1,
        1..10 => 2,
        _ => 3,
    };
    let scale = 10_u128.pow(u32::try_from(decimals).unwrap_or(0));
    let scaled = bytes.saturating_mul(scale);
    let (whole, rest) = (scaled / divisor, scaled % divisor);
    // A tie goes to the even digit, as in printf.
    let up = match (rest * 2).cmp(&divisor) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => whole % 2,
        std::cmp::Ordering::Greater => 1,
    };
    let rounded = whole + up;
    if decimals == 0 {
        return rounded.to_string();
    }
    let text = format!("{}.{:0decimals$}", rounded / scale, rounded % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of `qemu-img info` for such sizes.
    #[test]
    fn sizes_are_written_as_qemu_img_writes_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.977 KiB"),
            (2560, "2.5 KiB"),
            (200_704, "196 KiB"),
            (1_265_664, "1.21 MiB"),
            (1 << 30, "1 GiB"),
            (3 << 39, "1.5 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }
}
