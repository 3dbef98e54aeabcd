//! Patterns of image names.

/// Returns true if a name matches a pattern, in which `*` stands for any characters and `?` for one.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0_usize, 0_usize);
    // The place after the last `*`, and how much of the name it had taken.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                at = at.saturating_add(1);
                star = Some((at, read));
            }
            (Some(found), _) if *found == '?' || name.get(read) == Some(found) => {
                at = at.saturating_add(1);
                read = read.saturating_add(1);
            }
            // The last `*` takes one character more.
            (_, Some((after, taken))) => {
                read = taken.saturating_add(1);
                at = after;
                star = Some((after, read));
            }
            (_, None) => return false,
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|it| *it == '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match() {
        for (pattern, name) in [
            ("*", "a.qcow2"),
            ("*", ""),
            ("a*c", "abbc"),
            ("a*b*c", "a1b2b3c"),
            ("?-*.raw", "1-x.raw"),
            ("d\u{e9}*", "d\u{e9}bian"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "ab"),
            ("?", ""),
            ("*.raw", "a.raw2"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
