//! Passwords and keys: what is set in the guest, and the three forms of the answer.

use std::process::Command;

use diskfs_fixtures::require;
use serde_json::{Value, json};

use super::guest::debian;
use super::server::Server;
use super::{text, word};

/// Passwords with characters that break careless programs.
const PASSWORDS: [&str; 4] = [
    r"a$HOME`id`\n'q",
    "\"double\" \\ back",
    "pässwörd-密码",
    " x ",
];

#[expect(
    clippy::needless_pass_by_value,
    reason = "requests are written where they are made"
)]
fn deploy(server: &Server, image: &str, info: Value) -> Value {
    let request = json!({
        "disk_info": server.image(image),
        "guest_desc": { "name": "web1", "uuid": "7c1f0a3e-0000-4000-8000-000000000001" },
        "deploy_info": info,
    });
    server.answer("DeployGuestFs", &request)
}

fn key_pair(server: &Server, kind: &str) -> Option<(String, String)> {
    require("ssh-keygen")?;
    let path = server.path(kind);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", "", "-C", "ann@host", "-f"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
    Some((
        path.to_string_lossy().into_owned(),
        public.trim().to_owned(),
    ))
}

#[test]
fn passwords_are_set_and_answered_in_each_form() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let directory = server.directory();
    let read = |path: &str| text(directory.path(), &["cat", &format!("a.img:{path}")]);
    let Some((rsa, rsa_key)) = key_pair(&server, "rsa") else {
        return;
    };
    let Some((_, ed25519_key)) = key_pair(&server, "ed25519") else {
        return;
    };
    for password in PASSWORDS {
        let root = json!({ "password": password, "default_root_user": true });
        let answer = deploy(&server, "a.img", root);
        assert_eq!(word(&answer, "account"), "root");
        let uuid = "7c1f0a3e-0000-4000-8000-000000000001";
        let with_uuid = json!({ "cfb8": uuid, "secret": answer["key"] });

        let info = json!({ "password": password, "default_root_user": true, "public_key": { "public_key": rsa_key } });
        let answer = deploy(&server, "a.img", info);
        let with_rsa = json!({ "rsa": rsa, "secret": answer["key"] });

        let info = json!({ "password": password, "default_root_user": true, "public_key": { "public_key": ed25519_key } });
        let answer = deploy(&server, "a.img", info);
        let with_line = json!({ "cfb8": ed25519_key, "secret": answer["key"] });
        for result in server.calls(&json!([with_uuid, with_rsa, with_line])) {
            assert_eq!(result["answer"], password, "{result}");
        }
        assert_password(&read("/etc/shadow"), "root", password);
    }
    let keys = read("/root/.ssh/authorized_keys");
    // The last key replaces the one before, because both are managed.
    assert_eq!(keys.lines().count(), 1, "{keys}");
    assert!(keys.starts_with("ssh-ed25519 ") && keys.trim().ends_with(" @yunioncloudpods"));
    let sshd = text(directory.path(), &["grep", "-rh", "yes", "a.img:/etc/ssh"]);
    assert!(sshd.contains("PermitRootLogin yes") && sshd.contains("PasswordAuthentication yes"));
    assert!(
        !server.log().contains("pässwörd"),
        "the log has no password"
    );
}

/// Checks a hash with crypt(3), by the Perl of the host.
fn assert_password(shadow: &str, user: &str, password: &str) {
    if require("perl").is_none() {
        return;
    }
    let line = shadow
        .lines()
        .find(|line| line.starts_with(&format!("{user}:")))
        .unwrap();
    let hash = line.split(':').nth(1).unwrap();
    let output = Command::new("perl")
        .args([
            "-e",
            "print crypt($ARGV[0], $ARGV[1])",
            "--",
            password,
            hash,
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), hash, "{password}");
}

#[test]
fn the_account_is_chosen_as_by_the_host_deployer() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let account = |info: Value| word(&deploy(&server, "a.img", info), "account").to_owned();
    assert_eq!(account(json!({ "password": "p" })), "root");
    assert_eq!(
        account(json!({ "password": "p", "login_account": "operator" })),
        "operator"
    );
    assert_eq!(
        account(json!({ "password": "p", "login_account": "ann" })),
        "ann"
    );
    // The shortest name in /home, unless root is asked for.
    assert_eq!(account(json!({ "password": "p" })), "ann");
    assert_eq!(
        account(json!({ "password": "p", "default_root_user": true })),
        "root"
    );
    // Without a password there is no account in the answer.
    assert_eq!(account(json!({ "default_root_user": true })), "");
    let directory = server.directory();
    let sudoers = text(
        directory.path(),
        &["grep", "-rh", "NOPASSWD", "a.img:/etc/sudoers.d"],
    );
    for user in ["ann", "operator", "cloudroot"] {
        assert!(sudoers.contains(user), "{sudoers}");
    }
}

/// Writes a file of the guest.
fn write(server: &Server, path: &str, contents: &str) {
    std::fs::write(server.path("input"), contents).unwrap();
    let to = format!("a.img:{path}");
    let (parent, _) = to.rsplit_once('/').unwrap();
    text(server.directory().path(), &["mkdir", "-p", parent]);
    text(server.directory().path(), &["cp", "input", &to]);
}

/// The hash of Debian 12 needs memory and advice about it, which a confined worker can get.
#[test]
fn a_password_is_hashed_with_yescrypt() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    write(&server, "/usr/lib/libcrypt.so.1.1.0", "ELF\n");
    let pam = "password [success=1 default=ignore] pam_unix.so obscure yescrypt\n";
    write(&server, "/etc/pam.d/common-password", pam);
    let info = json!({ "password": "secret-1", "default_root_user": true });
    deploy(&server, "a.img", info);
    let shadow = text(server.directory().path(), &["cat", "a.img:/etc/shadow"]);
    assert!(shadow.starts_with("root:$y$j9T$"), "{shadow}");
    assert_password(&shadow, "root", "secret-1");
}

/// The answer has the password that was set, which callers show to the user.
#[test]
fn a_weak_random_password_is_replaced() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    let rules = "minlen = 20\ndcredit = -3\n";
    write(&server, "/etc/security/pwquality.conf", rules);
    for (password, is_random, is_kept) in [
        ("weak-Pass1", true, false),
        ("weak-Pass1", false, true),
        ("a-Strong-Enough-Password-123", true, true),
    ] {
        let info = json!({ "password": password, "is_random_password": is_random, "default_root_user": true });
        let answer = deploy(&server, "a.img", info);
        let uuid = "7c1f0a3e-0000-4000-8000-000000000001";
        let key = server.calls(&json!([{ "cfb8": uuid, "secret": answer["key"] }]));
        let answered = word(&key[0], "answer");
        assert_eq!(answered == password, is_kept, "{answered}");
        assert!(is_kept || answered.len() >= 20, "{answered}");
        let shadow = text(server.directory().path(), &["cat", "a.img:/etc/shadow"]);
        assert_password(&shadow, "root", answered);
        assert!(!server.log().contains(answered), "the log has no password");
    }
}

/// An expired account is refused by PAM even with a key.
#[test]
fn an_expired_cloudroot_is_renewed() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    if debian(&server.path("a.img"), "32M").is_none() {
        return;
    }
    deploy(&server, "a.img", json!({}));
    let read = || text(server.directory().path(), &["cat", "a.img:/etc/shadow"]);
    let line = |shadow: &str| {
        let line = shadow.lines().find(|line| line.starts_with("cloudroot:"));
        line.unwrap().to_owned()
    };
    let shadow = read();
    let fresh = line(&shadow);
    let expired = "cloudroot:!:19000:1:90:7:14:19100:";
    write(&server, "/etc/shadow", &shadow.replace(&fresh, expired));
    deploy(&server, "a.img", json!({}));
    assert_eq!(line(&read()), "cloudroot:!:19000:1:99999:7:::");
}
