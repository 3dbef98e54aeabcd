//! Tests with trees of files. `tests/judges.rs` compares the parser with `sshd -T`.

use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// Files by their paths. A pattern must be a directory, `*` and a suffix of names.
struct Tree(BTreeMap<&'static str, &'static str>);

impl Files for Tree {
    type Error = Infallible;

    fn text(&self, path: &str) -> Result<Option<String>, Infallible> {
        Ok(self.0.get(path).map(|text| (*text).to_owned()))
    }

    fn names(&self, _: &str) -> Result<Vec<String>, Infallible> {
        Ok(Vec::new())
    }

    fn expand(&self, pattern: &str) -> Result<Vec<String>, Infallible> {
        let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
        let paths = self.0.keys().filter(|path| {
            path.strip_prefix(start).is_some_and(|rest| {
                rest.ends_with(end) && (rest.is_empty() || pattern.contains('*'))
            })
        });
        Ok(paths.map(|path| (*path).to_owned()).collect())
    }
}

fn read<const N: usize>(files: [(&'static str, &'static str); N]) -> Config {
    Config::read(&Tree(files.into())).unwrap().unwrap()
}

fn first(config: &Config, keyword: &str) -> String {
    let setting = config.first(keyword);
    setting.map_or_else(String::new, |setting| setting.arguments.join(" "))
}

#[test]
fn files_are_read_where_they_are_included() {
    let config = read([
        (
            PLACES[0],
            "Include sshd_config.d/*.conf\nPermitRootLogin = yes\nAllowUsers a \"b c\" # d\nMatch User x\nInclude /etc/ssh/late\nMaxAuthTries 9\nMatch ALL\nMaxAuthTries 2\n",
        ),
        (
            "/etc/ssh/sshd_config.d/a.conf",
            "Match all\nInclude /etc/ssh/in\nMatch User y\nPermitRootLogin x\n",
        ),
        ("/etc/ssh/sshd_config.d/b.conf", "permitrootlogin \"no\"\n"),
        ("/etc/ssh/in", "Banner /b\n"),
        ("/etc/ssh/late", "MaxAuthTries 1\n"),
        (PLACES[1], "MaxAuthTries 7\n"),
    ]);
    assert_eq!(first(&config, "PermitRootLogin"), "no");
    assert_eq!(first(&config, "Banner"), "/b");
    assert_eq!(first(&config, "MaxAuthTries"), "2");
    assert_eq!(config.first("allowusers").unwrap().arguments, ["a", "b c"]);
    let setting = config.first("permitrootlogin").unwrap();
    assert_eq!(
        (&*setting.file, setting.line),
        ("/etc/ssh/sshd_config.d/b.conf", 1)
    );
    assert_eq!(config.includes[0].at, 0);
    assert_eq!(read([(PLACES[1], "Banner x")]).settings.len(), 1);
}

#[test]
fn circles_of_includes_end() {
    let circle = read([(PLACES[0], "Banner a\nInclude sshd_config\n")]);
    assert_eq!(
        (circle.settings.len(), circle.is_truncated),
        (MAX_DEPTH + 1, false)
    );
    let two = read([(PLACES[0], "Include sshd_config sshd_config\n")]);
    assert!(two.is_truncated);
    let many: &'static str = "Include none\n".repeat(1001).leak();
    let many = read([(PLACES[0], many)]);
    assert_eq!((many.includes.len(), many.is_truncated), (1000, true));
}

fn line() -> impl Strategy<Value = String> {
    "(#|  )?(Port|port|Banner|Match|Match all|Match User|x)?[ =\t\"]{0,2}(22|no|a)?[\r ]?"
}

proptest! {
    #[test]
    fn what_is_set_counts(all in prop::collection::vec(line(), 0..12), end in "\n?") {
        let text = all.join("\n") + &end;
        for (key, value) in [("Port", "2022"), ("Banner", "\"/a b\"")] {
            let set = with_setting(&text, key, value);
            prop_assert_eq!(with_setting(&set, key, value), set.clone());
            let config = Config::of(&Tree(BTreeMap::new()), "x", &set).unwrap();
            let found: Vec<_> = config.of_keyword(key).map(|it| &it.arguments).collect();
            prop_assert_eq!(found[0], &arguments(value));
            prop_assert!(key != "Port" || found.len() == 1);
            let others = |text: &str| -> Vec<String> {
                let bodies = lines(text).map(|line| line.body.to_owned());
                let sets = |line: &String| keyword(line).is_some_and(|(it, _)| it.eq_ignore_ascii_case(key));
                bodies.filter(|line| !sets(line)).collect()
            };
            prop_assert_eq!(others(&set), others(&text));
        }
    }

    #[test]
    fn any_text(text: String) {
        let _ = Config::of(&Tree(BTreeMap::new()), "x", &text);
        let _ = with_setting(&text, "Port", "1");
    }
}
