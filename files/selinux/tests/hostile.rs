//! Tests with malicious policies: every call returns soon.

mod common;

use std::time::{Duration, Instant};

use common::label;
use diskfs_selinux::{Config, Context, Error, FileKind, Labels, Texts};
use proptest::prelude::*;

const BASE: &[u8] = b"# A policy.\n/.*\tu:r:rest:s0\n/etc/.*  --  u:r:etc:s0-s1:c0.c3\n/etc/x\\.[a-c]{2,3}(/.*)? u:r:x\n\
    /home/[^/]+/(a|b)+ -d u:r:home\n/tmp/.* <<none>>\n/etc/passwd[-+]? -- u:r:passwd\n/exact -l u:r:exact\n";

const PATHS: [&str; 8] = [
    "/",
    "/etc/x.ab/y",
    "/etc/passwd-",
    "/home/u/abab",
    "/tmp/x",
    "/exact",
    "//etc//x/",
    "\u{fffd}",
];

/// The time limit: longer than any call here takes, unless it does not return.
const SOON: Duration = Duration::from_secs(30);

fn parsed(text: &[u8]) -> Result<Labels, Error> {
    Labels::parse(&Texts {
        file_contexts: text,
        homedirs: &text[text.len() / 2..],
        subs: text,
        ..Texts::default()
    })
}

fn parsed_local(text: &[u8]) -> Result<Labels, Error> {
    Labels::parse(&Texts {
        local: text,
        ..Texts::default()
    })
}

fn look_up_all(labels: &Labels) {
    for path in PATHS {
        for kind in FileKind::ALL {
            if let Some(context) = labels.label_for(path.as_bytes(), kind) {
                assert_eq!(Context::parse(context.as_str()).as_ref(), Some(context));
                assert_eq!(context.xattr_value().last(), Some(&0));
            }
        }
    }
}

fn soon<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    let took = started.elapsed();
    assert!(took < SOON, "{what}: {took:?}");
    result
}

#[test]
fn any_byte_changed() {
    let mut text = BASE.to_vec();
    for at in 0..text.len() {
        let before = text[at];
        for byte in [0, b'\n', b' ', b'(', b'[', b'{', b'\\', b'*', b'|', 0xff] {
            text[at] = byte;
            look_up_all(&parsed(&text).unwrap());
        }
        text[at] = before;
    }
}

#[test]
fn cut_anywhere() {
    for end in 0..BASE.len() {
        look_up_all(&parsed(&BASE[..end]).unwrap());
    }
}

#[test]
fn a_million_lines() {
    let of = |line: &str| line.repeat(1_000_000).into_bytes();
    let comments = soon("comments", || parsed(&of("#\n")).unwrap());
    assert!(comments.is_empty());
    let alone = of("/x\n");
    let alone = soon("lines that lack a word", || parsed_local(&alone).unwrap());
    assert_eq!(
        (alone.problem_count(), alone.problems().len()),
        (1_000_000, 1000)
    );
    for line in ["/x. u:r:t\n", "/x u:r:t\n", "/.* u:r:t\n"] {
        let text = of(line);
        let labels = soon(line, || parsed_local(&text));
        assert!(matches!(labels, Err(Error::TooMany { .. })));
    }
    let text = of("/x /y\n");
    let subs = Labels::parse(&Texts {
        subs: &text,
        ..Texts::default()
    });
    assert!(matches!(subs, Err(Error::TooMany { .. })));
}

#[test]
fn long_texts_and_lines() {
    // The contents are not read, because the length is refused first.
    let gibibyte = vec![0; 1 << 30];
    let labels = Labels::parse(&Texts {
        homedirs: &gibibyte,
        ..Texts::default()
    });
    assert!(matches!(labels, Err(Error::TextTooLong { .. })));
    let line = [b"/".as_slice(), &vec![b'a'; 15 << 20], b" u:r:t\n/b u:r:t"].concat();
    let labels = soon("a line of 15 MiB", || parsed_local(&line).unwrap());
    assert_eq!(
        label(&labels, "/b", FileKind::Socket).as_deref(),
        Some("u:r:t")
    );
    assert_eq!(labels.problem_count(), 1);
}

#[test]
fn patterns_that_others_choke_on() {
    let patterns = [
        "/(a+)+b",
        "/((a*)*)*b",
        "/(a|a)*b",
        "/(a|aa)+b",
        "/(.*)*(.*)*(.*)*b",
        "/a{0,4000}b",
        "/(a?){1000}a{1000}",
        "/((a{1,15}){1,15}){1,15}b",
        "/(.*a){200}b",
    ];
    let path = format!("/{}", "a".repeat(4000));
    for pattern in patterns {
        let text = format!("{pattern} u:r:t\n");
        let labels = parsed_local(text.as_bytes()).unwrap();
        assert_eq!(labels.problems(), [], "{pattern}");
        soon(pattern, || label(&labels, &path, FileKind::Regular));
    }
    for pattern in [
        "/a{65535}",
        "/((a{999}){999}){999}",
        "/a{99999999999999999999}",
        "/((((a{40}){40}){40}){40}){40}",
    ] {
        let text = format!("{pattern} u:r:t\n/b.* u:r:b\n");
        let labels = parsed_local(text.as_bytes()).unwrap();
        assert_eq!(labels.problem_count(), 1, "{pattern}");
        assert_eq!(
            label(&labels, "/b", FileKind::Fifo).as_deref(),
            Some("u:r:b")
        );
    }
}

/// The maximum number of patterns, each of which must be tried on each path.
#[test]
fn as_much_as_a_policy_may_say() {
    let lines = (0..8_000).map(|number| format!("/[^/]*(a|b[c-d])*[^x]{{20}}.{number} u:r:t\n"));
    let text: String = lines.collect();
    let labels = soon("loading", || parsed_local(text.as_bytes()).unwrap());
    let path = format!("/{}", "ab".repeat(100));
    soon("the first look-up", || {
        label(&labels, &path, FileKind::Regular)
    });
    soon("another", || label(&labels, &path, FileKind::Regular));
}

proptest! {
    #[test]
    fn any_text(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        look_up_all(&parsed(&text).unwrap());
        let config = Config::parse(&text);
        prop_assert!(config.contexts_directory().is_none_or(|path| !path.contains("..")  || path.contains("...")));
    }

    #[test]
    fn any_lines(text in "([/a-c.*+?()\\[\\]{}|\\\\^$0-9,:-]{1,12} (-[-dlcbpsx] )?(u:r:t|<<none>>|u:r)[ \n]){0,12}") {
        look_up_all(&parsed(text.as_bytes()).unwrap());
    }

    #[test]
    fn any_path(path in proptest::collection::vec(any::<u8>(), 0..200)) {
        let labels = parsed(BASE).unwrap();
        for kind in FileKind::ALL {
            let _ = labels.label_for(&path, kind);
        }
    }
}
