//! Tests of passwords in guests of several kinds.

use super::super::testing::{after, apply, guest, text};
use super::*;

const DEBIAN: &str = "-- /etc/passwd --\nroot:x:0:0:root:/root:/bin/bash\nann:x:1000:1000:Ann,,,:/home/ann:/bin/bash\n\
    -- /etc/shadow --\nroot:*:19000:0:99999:7:::\nann:!$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1:19000:0:99999:7:30:20000:\n\
    -- /etc/login.defs --\nENCRYPT_METHOD YESCRYPT\n\
    -- /usr/lib/x86_64-linux-gnu/libcrypt.so.1.1.0 --\n";

/// The current day in tests: 1 700 000 000 seconds since 1970, in days.
const TODAY: &str = "19675";

fn fields(guest: &Guest, user: &str) -> Vec<String> {
    let text = text(guest, SHADOW);
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{user}:")));
    line.unwrap().split(':').map(str::to_owned).collect()
}

#[test]
fn a_text_is_hashed_as_the_guest_does() {
    let guest = after(DEBIAN, "- root-password: \"p: \\u00e4$x\"");
    let fields = fields(&guest, "root");
    assert!(fields[HASH].starts_with("$y$j9T$"));
    assert_eq!(crypt::is_of(&fields[HASH], "p: \u{e4}$x"), Some(true));
    assert_eq!(fields[2..], [TODAY, "0", "99999", "7", "", "", ""]);
    assert!(text(&guest, SHADOW).contains("\nann:!$6$saltstring$"));
    assert_eq!(guest.stage.changes().unwrap().len(), 1);
}

#[test]
fn a_password_that_is_set_already_stays() {
    let guest = after(DEBIAN, "- password: {user: ann, text: Hello world!}");
    let fields = fields(&guest, "ann");
    // The lock is removed, and the hash is the same.
    assert!(fields[HASH].starts_with("$6$saltstring$svn8"));
    assert_eq!(
        fields[LAST_CHANGE..],
        [TODAY, "0", "99999", "7", "30", "20000", ""]
    );
}

#[test]
fn locks_come_and_go() {
    let locked = after(DEBIAN, "- password: {user: ann, locked: true}");
    assert!(locked.stage.changes().unwrap().is_empty());
    let unlocked = after(DEBIAN, "- password: {user: ann, unlock: true}");
    assert!(fields(&unlocked, "ann")[HASH].starts_with("$6$"));
    let disabled = after(DEBIAN, "- password: {user: ann, disabled: true}");
    assert_eq!(fields(&disabled, "ann")[HASH], "*");
    let root = after(DEBIAN, "- root-password: {locked: true}");
    assert_eq!(fields(&root, "root")[HASH], "!*");
}

#[test]
fn one_that_expires_must_be_changed() {
    let step = "- password: {user: ann, hash: \"$6$abc$def\", expire: true}";
    let guest = after(DEBIAN, step);
    assert_eq!(fields(&guest, "ann")[1..3], ["$6$abc$def", "0"]);
    let same = after(DEBIAN, "- password: {user: ann, expire: true}");
    assert!(fields(&same, "ann")[HASH].starts_with("!$6$"));
    assert_eq!(fields(&same, "ann")[LAST_CHANGE], "0");
}

#[test]
fn what_is_made_up_is_reported() {
    let mut guest = guest(DEBIAN);
    apply(&mut guest, "- root-password: {random: true}").unwrap();
    let report = guest.report("root-password");
    assert_eq!(report.changed, [SHADOW]);
    let [secret] = &*report.secrets else {
        panic!("{:?}", report.secrets)
    };
    assert_eq!((secret.of.as_str(), secret.secret.len()), ("root", 16));
    assert_eq!(
        crypt::is_of(&fields(&guest, "root")[HASH], &secret.secret),
        Some(true)
    );
}

#[test]
fn guests_without_shadow_have_it_in_passwd() {
    let guest = after(
        "-- /etc/passwd --\nroot::0:0::/root:/bin/ash\n",
        "- root-password: x",
    );
    let line = text(&guest, PASSWD);
    assert!(
        line.starts_with("root:$6$") && line.ends_with(":0:0::/root:/bin/ash\n"),
        "{line}"
    );
    let short = after(
        "-- /etc/passwd --\nroot:!:0:0::/root:/bin/ash\n-- /etc/shadow --\nother:*\n",
        "- root-password: {hash: \"$1$a$b\"}",
    );
    assert_eq!(
        text(&short, SHADOW),
        format!("other:*\nroot:$1$a$b:{TODAY}::::::\n")
    );
    assert_eq!(text(&short, PASSWD), "root:x:0:0::/root:/bin/ash\n");
}

#[test]
fn what_is_no_password_is_refused() {
    for step in [
        "- root-password: \"a\\nb\"",
        "- root-password: \"a\\0\"",
        "- root-password: 0123",
        "- root-password: {hash: nothing}",
        "- root-password: {hash: \"$6$a:b$c\"}",
        "- root-password: {text: a, locked: true}",
        "- root-password: {text: a, user: ann}",
        "- root-password: {unlock: false}",
        "- root-password: {txt: a}",
        "- password: {text: a}",
        "- password: {user: bob, text: a}",
    ] {
        let mut guest = guest(DEBIAN);
        assert!(apply(&mut guest, step).is_err(), "{step}");
        assert!(guest.stage.changes().unwrap().is_empty(), "{step}");
    }
    let new = "-- /etc/passwd --\nann:x:1:1::/:/bin/sh\n-- /etc/shadow --\nann:!:1::::::\n";
    assert!(apply(&mut guest(new), "- password: {user: ann, unlock: true}").is_err());
    let bsd = "-- /etc/master.passwd --\n-- /etc/passwd --\nroot:*:0:0::/root:/bin/csh\n";
    let error = apply(&mut guest(bsd), "- root-password: x").unwrap_err();
    assert!(error.to_string().contains("master.passwd"), "{error}");
}

#[test]
fn a_selector_word_as_bare_text_is_no_password() {
    for (text, instead) in [
        ("random", "{random: true}"),
        ("locked", "{locked: true}"),
        ("unlock", "{unlock: true}"),
        ("disabled", "{disabled: true}"),
        ("Random", "{random: true}"),
        ("random ", "{random: true}"),
        ("password:secret", "{text: ...}"),
        ("file:/root/pw", "{file: /root/pw}"),
        ("hash:$6$a$b", "{hash: ...}"),
        ("locked:random", "{locked: true}"),
        ("$6$saltsalt$abcdefghijklmnopqrstuvw", "{hash: ...}"),
        ("", "{disabled: true}"),
    ] {
        for step in [
            format!("- root-password: \"{text}\""),
            format!("- user: {{name: ann, password: \"{text}\"}}"),
        ] {
            let mut guest = guest(DEBIAN);
            let told = apply(&mut guest, &step).unwrap_err().to_string();
            assert!(told.contains(instead), "{step}: {told}");
            let is_secret = text.contains("secret") || text.contains("abcdef");
            assert!(!is_secret || !told.contains(text), "{step}: {told}");
            assert!(guest.stage.changes().unwrap().is_empty(), "{step}");
        }
    }
}

#[test]
fn a_selector_word_in_detail_is_the_password_itself() {
    for word in ["random", "hash:x", "file:/none", "12345", "no"] {
        let guest = after(DEBIAN, &format!("- root-password: {{text: {word}}}"));
        let hash = &fields(&guest, "root")[HASH];
        assert_eq!(crypt::is_of(hash, word), Some(true), "{word}");
    }
    // Text that only begins with a selector word is a password.
    for word in ["randomly", "my random", "file", "hash", "a:b", "$ecret$"] {
        let guest = after(DEBIAN, &format!("- root-password: \"{word}\""));
        let hash = &fields(&guest, "root")[HASH];
        assert_eq!(crypt::is_of(hash, word), Some(true), "{word}");
    }
}

#[test]
fn a_password_without_a_text_is_refused() {
    for value in [
        "12345",
        "0123",
        "true",
        "~",
        "",
        "1.5",
        "[a]",
        "{text: \"\"}",
    ] {
        for step in [
            format!("- root-password: {value}"),
            format!("- user: {{name: ann, password: {value}}}"),
        ] {
            let mut guest = guest(DEBIAN);
            assert!(apply(&mut guest, &step).is_err(), "{step}");
            assert!(guest.stage.changes().unwrap().is_empty(), "{step}");
        }
    }
}

#[test]
fn the_first_line_of_a_file_is_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, "of a file\nrest\n").unwrap();
    let step = format!("- root-password: {{file: \"{}\"}}", path.display());
    let guest = after(DEBIAN, &step);
    let hash = &fields(&guest, "root")[HASH];
    assert_eq!(crypt::is_of(hash, "of a file"), Some(true));
    std::fs::write(&path, "\n").unwrap();
    assert!(apply(&mut self::guest(DEBIAN), &step).is_err());
}
