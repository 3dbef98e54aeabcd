//! Bars and shades of block characters.

/// A full cell.
const FULL: char = '\u{2588}';
/// One to seven eighths of a cell, from the left.
const EIGHTHS: [char; 7] = [
    '\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}',
];

/// Draws `part` of `whole` as a bar of at most `cells` cells, without padding. A part that is not
/// zero is at least an eighth of a cell.
pub(crate) fn bar(part: u64, whole: u64, cells: u16) -> String {
    let eighths_max = u128::from(cells) * 8;
    let share = u128::from(part.min(whole)) * eighths_max;
    let eighths = share.checked_div(u128::from(whole)).unwrap_or(0);
    let eighths = eighths.max(u128::from(part > 0 && whole > 0));
    let eighths = usize::try_from(eighths).unwrap_or(0);
    let partial = (eighths % 8).checked_sub(1).and_then(|at| EIGHTHS.get(at));
    std::iter::repeat_n(FULL, eighths / 8)
        .chain(partial.copied())
        .collect()
}

/// Draws a bar between two edges, padded: a gauge.
pub(crate) fn gauge(part: u64, whole: u64, cells: u16) -> String {
    let bar = bar(part, whole, cells);
    format!("\u{2595}{bar:width$}\u{258f}", width = usize::from(cells))
}

/// Returns the character for a cell of a map, by the share of it that is there.
pub(crate) fn shade(part: u64, whole: u64) -> char {
    let (part, whole) = (u128::from(part), u128::from(whole));
    match part * 4 {
        0 => '\u{b7}',
        quarters if quarters < whole => '\u{2591}',
        quarters if quarters < whole * 3 => '\u{2592}',
        _ if part < whole => '\u{2593}',
        _ => FULL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths() {
        assert_eq!(bar(0, 100, 4), "");
        assert_eq!(bar(100, 100, 4), "\u{2588}\u{2588}\u{2588}\u{2588}");
        assert_eq!(bar(50, 100, 4), "\u{2588}\u{2588}");
        assert_eq!(bar(53, 100, 4), "\u{2588}\u{2588}");
        assert_eq!(bar(54, 100, 4), "\u{2588}\u{2588}\u{258f}");
        assert_eq!(bar(1, u64::MAX, 4), "\u{258f}", "what exists is seen");
        assert_eq!(bar(9, 3, 1), "\u{2588}", "at most the whole");
        assert_eq!(bar(5, 0, 4), "");
    }

    #[test]
    fn shades_show_what_exists() {
        let shades = [0, 1, 24, 25, 74, 75, 99, 100].map(|part| shade(part, 100));
        assert_eq!(shades.iter().collect::<String>(), "·░░▒▒▓▓█");
        assert_eq!(shade(1, u64::MAX), '░');
    }

    #[test]
    fn gauges_have_one_width() {
        for part in [0, 1, 50, 99, 100] {
            assert_eq!(gauge(part, 100, 10).chars().count(), 12);
        }
    }
}
