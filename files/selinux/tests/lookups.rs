//! Lookups with known results, which need no libselinux, including rules that differ between its
//! versions.

mod common;

use common::label;
use diskfs_selinux::{Error, FileKind, Labels, Text, Texts};

fn labels(file_contexts: &str) -> Labels {
    Labels::parse(&Texts {
        file_contexts: file_contexts.as_bytes(),
        ..Texts::default()
    })
    .unwrap()
}

fn regular(labels: &Labels, path: &str) -> Option<String> {
    label(labels, path, FileKind::Regular)
}

#[test]
fn the_last_line_counts() {
    let labels = labels(
        "/a/b/c.* u:r:deep\n/a/.* u:r:shallow\n\
         /f -- u:r:regular\n/f u:r:all\n/x.* -- u:r:regular\n/x.* u:r:all\n\
         /run/foo/.* <<none>>\n/run/.* u:r:later\n/twice u:r:first\n/twice u:r:second\n",
    );
    for (path, expected) in [
        ("/a/b/cc", "u:r:shallow"),
        ("/f", "u:r:all"),
        ("/x1", "u:r:all"),
        ("/run/foo/z", "u:r:later"),
        ("/twice", "u:r:second"),
    ] {
        assert_eq!(regular(&labels, path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(labels.len(), 10);
}

#[test]
fn a_path_as_it_is_wins_over_patterns() {
    let labels = labels("/f\\.x -d u:r:literal\n/f.* u:r:pattern\n/n <<none>>\n/n.* u:r:pattern\n");
    let directory = label(&labels, "/f.x", FileKind::Directory);
    assert_eq!(directory.as_deref(), Some("u:r:literal"));
    assert_eq!(regular(&labels, "/f.x").as_deref(), Some("u:r:pattern"));
    assert_eq!(regular(&labels, "/n"), None);
}

#[test]
fn aliases_of_the_administrator_come_first() {
    let labels = Labels::parse(&Texts {
        file_contexts: b"/var/run/.* u:r:run\n/data/.* u:r:data\n/three/.* u:r:three\n",
        subs_dist: b"/run /var/run\n/srv /data\n",
        subs: b"/mine /run\n/srv/x /three\n/one /two\n/one/x /three\n",
        ..Texts::default()
    })
    .unwrap();
    for (path, expected) in [
        ("/mine/x", "u:r:run"),
        ("/srv/y", "u:r:data"),
        ("/srv/x/y", "u:r:three"),
        ("/one/x/y", "u:r:three"),
        ("//run//x/", "u:r:run"),
    ] {
        assert_eq!(regular(&labels, path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(regular(&labels, "/one/y"), None);
    assert_eq!(regular(&labels, "/running/x"), None);
}

#[test]
fn each_bad_line_is_reported_and_the_others_count() {
    let text =
        b"/a.* u:r:a\n/alone\n/b.* -x u:r:b\n/c.* u:r\n/\xff.* u:r:d\n/(?=e) u:r:e\n/f( u:r:f\n\
        /g u:r:g -- \n  # x\n\n/h.*\tu:r:h # comment\n/i\0.* u:r:i\n/j.* -- u:r:\xffj\n/z.* u:r:z";
    let labels = Labels::parse(&Texts {
        file_contexts: text,
        local: b"/l++ u:r:l\n/m.* u:r:m\n",
        ..Texts::default()
    })
    .unwrap();
    let problems = labels.problems();
    let at: Vec<_> = problems
        .iter()
        .map(|problem| (problem.text, problem.line))
        .collect();
    let bad = [2, 3, 4, 5, 6, 7, 8, 11, 12, 13];
    let mut expected: Vec<_> = bad.iter().map(|line| (Text::FileContexts, *line)).collect();
    expected.push((Text::Local, 1));
    assert_eq!(at, expected, "{problems:#?}");
    assert_eq!(labels.problem_count(), at.len());
    assert_eq!(
        problems[0].to_string(),
        "file_contexts, line 2: missing context"
    );
    for (path, expected) in [("/a1", "u:r:a"), ("/z1", "u:r:z"), ("/m1", "u:r:m")] {
        assert_eq!(regular(&labels, path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(labels.len(), 3);
}

#[test]
fn nothing_at_all() {
    let labels = labels("");
    assert!(labels.is_empty());
    for path in ["", "/", "/etc/passwd", "x", "\0"] {
        assert_eq!(regular(&labels, path), None);
    }
}

#[test]
fn errors_say_where() {
    let text = "/a.b u:r:t\n".repeat(70_000);
    let error = Labels::parse(&Texts {
        homedirs: text.as_bytes(),
        ..Texts::default()
    });
    let error = error.unwrap_err();
    let is_expected = matches!(
        error,
        Error::TooMany {
            text: Text::Homedirs,
            line: 8_193,
            what: "patterns",
            ..
        }
    );
    assert!(is_expected, "{error}");
}
