//! The sudo rules: `/etc/sudoers` and the files that it includes (sudoers(5)).

use diskfs_etc::sudoers::{PATH, Sudoers};
use serde::Serialize;

use super::files::Files;

/// A sudo rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SudoRule {
    /// The subject: a user, `%group`, `#uid`, or an alias.
    pub who: String,
    /// The hosts, target users and commands, as written: `ALL=(ALL:ALL) NOPASSWD: ALL`.
    pub may: String,
    /// True if some of the commands need no password.
    pub without_password: bool,
    /// The file with the rule.
    pub file: String,
    /// The line number, from 1.
    pub line: usize,
}

/// Returns all rules, in the order in which sudo reads them.
pub(super) fn of(files: &Files<'_>) -> Vec<SudoRule> {
    let Ok(sudoers) = Sudoers::read(files);
    if sudoers.is_truncated {
        files.add_problem(
            PATH,
            "includes more than 256 files or 4 MiB; the rest is not read",
        );
    }
    let mut told = Vec::new();
    for (file, line, _) in &sudoers.rules {
        if !told.contains(file) {
            told.push(file.clone());
            files.add_source("sudoers", file, Some(*line));
        }
    }
    let rules = sudoers.rules.into_iter();
    let rules = rules.map(|(file, line, rule)| SudoRule {
        who: rule.who,
        may: rule.may,
        without_password: rule.without_password,
        file: file.to_string(),
        line,
    });
    rules.collect()
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
