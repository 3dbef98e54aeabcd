//! Who may act as whom: `/etc/sudoers` and what it includes (sudoers(5)).

use serde::Serialize;

use super::files::Files;
use diskfs_etc::shell::settings;

const PATH: &str = "/etc/sudoers";

/// Files that include each other end here.
const MAX_FILES: usize = 256;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SudoRule {
    /// Who: a user, `%group`, `#uid`, or an alias.
    pub who: String,
    /// Where, as whom, and what, as it is written: `ALL=(ALL:ALL) NOPASSWD: ALL`.
    pub may: String,
    /// Whether some of it is allowed without a password.
    pub without_password: bool,
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

/// All rules, in the order of the files.
pub(super) fn of(files: &Files<'_>) -> Vec<SudoRule> {
    let mut rules = Vec::new();
    let mut seen = vec![PATH.to_owned()];
    let mut next = 0;
    while let Some(path) = seen.get(next).cloned() {
        next += 1;
        let Some(text) = files.text(&path) else {
            continue;
        };
        let found = rules_of(&path, &text);
        if let Some(first) = found.first() {
            files.came_from("sudoers", &path, Some(first.line));
        }
        rules.extend(found);
        for included in included(files, &text) {
            if !seen.contains(&included) && seen.len() < MAX_FILES {
                seen.push(included);
            }
        }
    }
    rules
}

/// `@include FILE`, `@includedir DIR`, with `#` in place of `@` before sudo 1.9.1.
fn included(files: &Files<'_>, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some((word, path)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let path = path.trim().trim_matches('"');
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/etc/{path}")
        };
        match word {
            "@include" | "#include" => found.push(path),
            "@includedir" | "#includedir" => {
                // Names with a dot, or with a tilde at their end, are left out by sudo, too.
                let names = files.names(&path).into_iter();
                let names = names.filter(|name| !name.contains('.') && !name.ends_with('~'));
                found.extend(names.map(|name| format!("{path}/{name}")));
            }
            _ => {}
        }
    }
    found
}

fn rules_of(file: &str, text: &str) -> Vec<SudoRule> {
    let other = [
        "Defaults",
        "User_Alias",
        "Runas_Alias",
        "Host_Alias",
        "Cmnd_Alias",
        "Cmd_Alias",
        "@",
    ];
    // A backslash at a line's end joins it with the next. Numbers stay those of the first.
    let joined = text.replace("\\\n", "\u{1f}");
    let mut joints = 0;
    let mut rules = Vec::new();
    for (number, line) in settings(&joined) {
        let number = number + joints;
        joints += line.matches('\u{1f}').count();
        let line = line.replace('\u{1f}', " ");
        if other.iter().any(|word| line.starts_with(word)) {
            continue;
        }
        // A user's name has its blanks behind backslashes.
        let Some((who, may)) = split_at_blank(&line).filter(|(_, may)| may.contains('=')) else {
            continue;
        };
        rules.push(SudoRule {
            who: who.replace("\\ ", " "),
            may: may.split_whitespace().collect::<Vec<_>>().join(" "),
            without_password: may.contains("NOPASSWD:"),
            file: file.to_owned(),
            line: number,
        });
    }
    rules
}

fn split_at_blank(line: &str) -> Option<(&str, &str)> {
    let mut before = ' ';
    let end = line.find(|c: char| {
        let is_end = c.is_whitespace() && before != '\\';
        before = c;
        is_end
    })?;
    let (who, rest) = line.split_at(end);
    Some((who, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn rules_of_all_files() {
        let tree = guest(&[
            (
                PATH,
                "Defaults env_reset\nroot\tALL=(ALL:ALL) ALL\nUser_Alias X = \\\n  a, b\n%sudo   ALL=(ALL:ALL) \\\n ALL\n#includedir /etc/sudoers.d\n@include sudoers\n",
            ),
            ("/etc/sudoers.d/90-cloud", "ann ALL=(ALL) NOPASSWD:ALL\n"),
            ("/etc/sudoers.d/README.x", "bob ALL=(ALL) ALL\n"),
        ]);
        let found = of(&Files::new(&tree));
        let shown: Vec<_> = found
            .iter()
            .map(|it| (&*it.who, &*it.may, it.without_password, it.line))
            .collect();
        let expected = [
            ("root", "ALL=(ALL:ALL) ALL", false, 2),
            ("%sudo", "ALL=(ALL:ALL) ALL", false, 5),
            ("ann", "ALL=(ALL) NOPASSWD:ALL", true, 1),
        ];
        assert_eq!(shown, expected);
    }
}
