//! Tests with trees of files. `tests/judges.rs` compares the parser with cvtsudoers.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

struct Tree(BTreeMap<&'static str, &'static str>);

impl Files for Tree {
    type Error = Infallible;

    fn text(&self, path: &str) -> Result<Option<String>, Infallible> {
        Ok(self.0.get(path).map(|text| (*text).to_owned()))
    }

    fn names(&self, dir: &str) -> Result<Vec<String>, Infallible> {
        let below = |path: &&'static str| path.strip_prefix(dir)?.strip_prefix('/');
        Ok(self.0.keys().filter_map(below).map(str::to_owned).collect())
    }

    fn expand(&self, _: &str) -> Result<Vec<String>, Infallible> {
        Ok(Vec::new())
    }
}

#[test]
fn files_are_read_where_they_are_included() {
    let tree = Tree(
        [
            (
                PATH,
                "a ALL=ALL\n#includedir /etc/sudoers.d/\n@include \"more\"\nz ALL=ALL\n",
            ),
            ("/etc/sudoers.d/90", "b ALL=ALL\n@include 91\n"),
            ("/etc/sudoers.d/91", "c ALL=ALL\n@include /etc/sudoers\n"),
            ("/etc/sudoers.d/x.y", "d ALL=ALL\n"),
            ("/etc/sudoers.d/x~", "e ALL=ALL\n"),
            ("/etc/more", "f ALL=ALL\n"),
        ]
        .into(),
    );
    let sudoers = Sudoers::read(&tree).unwrap();
    let shown: Vec<_> = sudoers
        .rules
        .iter()
        .map(|(file, line, rule)| format!("{file}:{line} {}", rule.who))
        .collect();
    let expected = [
        "/etc/sudoers:1 a",
        "/etc/sudoers.d/90:1 b",
        "/etc/sudoers.d/91:1 c",
        "/etc/more:1 f",
        "/etc/sudoers:4 z",
    ];
    assert_eq!(shown, expected);
    assert!(!sudoers.is_truncated);
}

#[test]
fn rules_and_what_is_none() {
    let text = "Defaults env_reset\nDefaults:x !y=1\nUser_Alias X = \\\n a, b\nUser_AliasX ALL=ALL\nCmnd_Alias Y = /z\n\
        %sudo   ALL=(ALL:ALL) \\\n ALL # NOPASSWD: x\n#1000 , \"a b\",! x\\ y H1, H2 = (#0) NOPASSWD  :  /bin/ls\nlonely\nbroken ALL\n";
    let rules: Vec<_> = items(text)
        .map(|(line, item)| match item {
            Item::Rule(rule) => (line, rule.who, rule.may, rule.without_password),
            _ => panic!("{item:?}"),
        })
        .collect();
    let of = |line, who: &str, may: &str, free| (line, who.to_owned(), may.to_owned(), free);
    let expected = [
        of(5, "User_AliasX", "ALL=ALL", false),
        of(7, "%sudo", "ALL=(ALL:ALL) ALL", false),
        of(
            9,
            "#1000, a b, ! x y",
            "H1, H2 = (#0) NOPASSWD : /bin/ls",
            true,
        ),
    ];
    assert_eq!(rules, expected);
}

proptest! {
    #[test]
    fn any_text(text in "[a#@\"\\\\, =\n]{0,40}") {
        for (line, _) in items(&text) {
            prop_assert!(line >= 1 && line <= text.lines().count());
        }
    }
}
