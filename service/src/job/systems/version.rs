//! The version of a system, in a file of the guest.

use super::table::Version;

/// Returns the version. `read` returns the text of a file, empty if it is missing.
pub(super) fn of(version: Version, read: &dyn Fn(&str) -> String) -> String {
    match version {
        Version::Fixed(version) => version.to_owned(),
        Version::Line(path) => first_line(&read(path)).to_owned(),
        Version::InSentence(path) => in_sentence(first_line(&read(path))).to_owned(),
        Version::Variable(path, name) => variable(&read(path), name),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

/// Returns the word after `release`, else the first word with a digit at its start, else the last
/// word before a parenthesis.
fn in_sentence(line: &str) -> &str {
    let mut words = line.split_whitespace();
    if words
        .by_ref()
        .any(|word| word.eq_ignore_ascii_case("release"))
        && let Some(word) = words.next()
    {
        return word;
    }
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let mut before = line
        .split('(')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let number = line.split_whitespace().find(is_number);
    number.or_else(|| before.next_back()).unwrap_or_default()
}

/// Returns the value of a variable in the syntax of a shell.
pub(super) fn variable(text: &str, name: &str) -> String {
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    };
    text.lines().find_map(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_a_version() {
        for (line, version) in [
            ("Rocky Linux release 9.3 (Blue Onyx)", "9.3"),
            ("CentOS Linux release 7.9.2009 (Core)", "7.9.2009"),
            ("CentOS Stream release 9", "9"),
            ("Red Hat Enterprise Linux Server release 7.9 (Maipo)", "7.9"),
            ("Red Hat Enterprise Linux release 8.5 (Ootpa)", "8.5"),
            ("AlmaLinux release 9.3 (Shamrock Pampas Cat)", "9.3"),
            ("Kylin Linux Advanced Server release V10 (Tercel)", "V10"),
            ("openEuler release 22.03 (LTS-SP3)", "22.03"),
            ("NFS Server V4.0 (G193)", "V4.0"),
            ("OpenCloudOS 8.6", "8.6"),
            ("", ""),
        ] {
            assert_eq!(in_sentence(line), version, "{line}");
        }
    }
}
