//! Tests of authorized keys in several guests.

use super::super::testing::{after, apply, attributes, guest, text};

const GUEST: &str = "-- /etc/passwd --\nroot:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\nsvc:x:900:900::/nonexistent:/bin/false\n\
    -- /root/.profile --\n-- /home/ann/.profile --\n";

const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL";
const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL";
const ROOT: &str = "/root/.ssh/authorized_keys";
const ANN: &str = "/home/ann/.ssh/authorized_keys";

#[test]
fn the_first_keys_of_a_user() {
    let guest = after(
        GUEST,
        &format!("- ssh-key: {{user: ann, keys: [\"{A} ann@x\", \"{B}\\n\"]}}"),
    );
    assert_eq!(text(&guest, ANN), format!("{A} ann@x\n{B}\n"));
    assert_eq!(attributes(&guest, ANN), "0600 1000:1001");
    assert_eq!(attributes(&guest, "/home/ann/.ssh"), "0700 1000:1001");
    assert_eq!(attributes(&guest, "/home/ann"), "0755 0:0");
}

#[test]
fn what_is_there_stays_as_it_is() {
    let before = format!("# mine\nno-pty {A} old comment\nwhat is this\n\n");
    let had = format!("{GUEST}-- {ROOT} --\n{before}");
    let guest = after(
        &had,
        &format!("- ssh-key: {{user: root, keys: [\"{A} new\", \"{B}\"]}}"),
    );
    assert_eq!(text(&guest, ROOT), format!("{before}{B}\n"));
    let removed = after(
        &had,
        &format!("- ssh-key: {{user: root, remove: [\"{A}\"]}}"),
    );
    assert_eq!(text(&removed, ROOT), "# mine\nwhat is this\n\n");
    let only = after(
        &had,
        &format!("- ssh-key: {{user: root, keys: [\"{B}\"], exclusive: true}}"),
    );
    assert_eq!(text(&only, ROOT), format!("# mine\nwhat is this\n\n{B}\n"));
}

#[test]
fn sshd_may_look_elsewhere() {
    let step = format!("- ssh-key: {{user: root, keys: [\"{A}\"]}}");
    let of = |value: &str| {
        let config = format!("{GUEST}-- /etc/ssh/sshd_config --\nauthorizedkeysfile {value}\n");
        after(&config, &step)
    };
    assert_eq!(
        text(&of("%h/.ssh/keys .ssh/other"), "/root/.ssh/keys"),
        format!("{A}\n")
    );
    assert_eq!(text(&of(".keys"), "/root/.keys"), format!("{A}\n"));
    assert_eq!(attributes(&of(".keys"), "/root"), "0755 0:0");
    let mut elsewhere = of("/etc/ssh/keys/%u");
    assert_eq!(text(&elsewhere, ROOT), format!("{A}\n"));
    assert!(elsewhere.report("ssh-key").notes[0].contains("/etc/ssh/keys/%u"));
}

#[test]
fn what_is_no_key_is_refused() {
    for key in [
        "",
        "ssh-ed25519 AAAA",
        "ssh-rsa !",
        "# comment",
        &A.replace("AAAAC3", "AAAAC4"),
    ] {
        let mut guest = guest(GUEST);
        let step = format!("- ssh-key: {{user: root, keys: [\"{key}\"]}}");
        assert!(apply(&mut guest, &step).is_err(), "{key}");
        assert!(guest.stage.changes().unwrap().is_empty());
    }
    for user in ["bob", "svc"] {
        let step = format!("- ssh-key: {{user: {user}, keys: [\"{A}\"]}}");
        assert!(apply(&mut guest(GUEST), &step).is_err(), "{user}");
    }
}
