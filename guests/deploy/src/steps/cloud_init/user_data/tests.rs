use std::process::Command;

use super::super::super::testing::{after, apply, attributes, guest, text};
use crate::guest::Guest;

const GUEST: &str = "-- /etc/passwd --\nroot:x:0:0::/root:/bin/bash\n-- /etc/shadow --\nroot:*:19000:0:99999:7:::\n\
    -- /etc/group --\nroot:x:0:\nwheel:x:10:\n-- /etc/hostname --\nold\n-- /usr/lib/systemd/systemd --\nELF\n-- /etc/apt/x --\nx\n\
    -- /etc/ssh/sshd_config --\nPort 22\n-- /bin/bash --\nELF\n-- /bin/sh --\nELF\n-- /usr/share/zoneinfo/Europe/Berlin --\nTZif\n\
    -- /etc/sudoers --\n@includedir /etc/sudoers.d\n-- /root/x --\nx\n";

const SCRIPT: &str = "/usr/local/lib/diskfs/firstboot.d/50-user-data";

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMrzPP4Ec1RkyMuTLyR2AHh7Kvkfe2F7VhMBcVBYZXkB a";

fn step(user_data: &str) -> String {
    let text = user_data.replace('\n', "\n      ");
    format!("- cloud-init:\n    user-data: |\n      {text}")
}

fn notes(guest: &mut Guest) -> String {
    guest.report("cloud-init").notes.join("\n")
}

#[test]
fn a_script_is_run_once() {
    let guest = after(GUEST, &step("#!/bin/bash\necho hi"));
    assert_eq!(text(&guest, SCRIPT).trim_end(), "#!/bin/bash\necho hi");
    assert_eq!(attributes(&guest, SCRIPT), "0755 0:0");
}

#[test]
fn users_are_made_as_they_are_described() {
    let config = format!(
        "#cloud-config
users:
- default
- name: ann
  gecos: Ann
  groups: wheel, docker
  shell: /bin/bash
  sudo: ALL=(ALL) NOPASSWD:ALL
  lock_passwd: false
  passwd: $6$salt$IxDD3jeSOb5eB1CX5LBsqZFVkJdido3OUILO5Ifz5iwMuTS4XMS130MTSuDDl3aCI6WouIL9AjRbLCelDCy.g.
  ssh_authorized_keys: [{KEY}]
- {{name: ben, plain_text_passwd: secret, sudo: false, expiredate: '2030-01-01'}}
ssh_pwauth: true"
    );
    let mut guest = after(GUEST, &step(&config));
    let passwd = text(&guest, "/etc/passwd");
    assert!(
        passwd.contains("ann:x:1000:1000:Ann:/home/ann:/bin/bash\n"),
        "{passwd}"
    );
    let shadow = text(&guest, "/etc/shadow");
    assert!(
        shadow.contains("ann:$6$salt$") && shadow.contains("ben:!"),
        "{shadow}"
    );
    let sudoers = text(&guest, "/etc/sudoers.d/90-cloud-init-ann");
    assert_eq!(sudoers, "ann ALL=(ALL) NOPASSWD:ALL\n");
    assert!(text(&guest, "/home/ann/.ssh/authorized_keys").starts_with("ssh-ed25519 "));
    assert!(text(&guest, "/etc/ssh/sshd_config").contains("PasswordAuthentication yes"));
    let notes = notes(&mut guest);
    for left_out in ["default user", "docker", "password of ben", "`expiredate`"] {
        assert!(notes.contains(left_out), "{left_out} in {notes}");
    }
}

/// cloud-init accepts keys with dashes instead of underscores.
#[test]
fn keys_may_have_dashes() {
    let config = format!(
        "#cloud-config
ssh-authorized-keys: [{KEY}]
ssh-pwauth: true
write-files: [{{path: /etc/app/a, content: a}}]
users:
- {{name: ann, plain-text-passwd: secret, lock-passwd: false, ssh-authorized-keys: [{KEY}]}}"
    );
    let mut guest = after(GUEST, &step(&config));
    let shadow = text(&guest, "/etc/shadow");
    assert!(shadow.contains("ann:$"), "{shadow}");
    for home in ["/home/ann", "/root"] {
        let keys = text(&guest, &format!("{home}/.ssh/authorized_keys"));
        assert!(keys.starts_with("ssh-ed25519 "), "{home}");
    }
    assert!(text(&guest, "/etc/ssh/sshd_config").contains("PasswordAuthentication yes"));
    assert_eq!(text(&guest, "/etc/app/a"), "a");
    let notes = notes(&mut guest);
    assert!(!notes.contains("ignored"), "{notes}");
}

#[test]
fn the_rest_is_done_by_steps_or_reported() {
    let config = "#cloud-config
hostname: web1
fqdn: web1.example.org
timezone: Europe/Berlin
write_files:
- {path: /etc/app/a, content: YT0xCg==, encoding: b64, permissions: '0600', owner: 'root:wheel'}
- {path: /etc/app/b, content: \"b\\n\", append: true}
bootcmd: [echo boot]
packages: [nginx, [vim, '2'], \"a b\"]
runcmd:
- echo one > /run/one
- [sh, -c, \"echo 'two'\"]
ntp: {enabled: true}
power_state: {mode: reboot}";
    let mut guest = after(GUEST, &step(config));
    assert_eq!(text(&guest, "/etc/hostname"), "web1\n");
    assert_eq!(text(&guest, "/etc/app/a"), "a=1\n");
    assert_eq!(attributes(&guest, "/etc/app/a"), "0600 0:10");
    assert_eq!(text(&guest, "/etc/app/b"), "b\n");
    let expected = "#!/bin/sh\necho boot\napt-get update\n\
        DEBIAN_FRONTEND=noninteractive apt-get -y install nginx vim 'a b'\n\
        echo one > /run/one\nsh -c 'echo '\\''two'\\'''\n";
    assert_eq!(text(&guest, SCRIPT), expected);
    let mut shell = Command::new("sh");
    assert!(
        shell
            .args(["-n", "-c", expected])
            .status()
            .unwrap()
            .success()
    );
    let notes = notes(&mut guest);
    for left_out in ["package vim", "`ntp`", "`power_state`", "bootcmd"] {
        assert!(notes.contains(left_out), "{left_out} in {notes}");
    }
}

#[test]
fn passwords_and_keys_of_the_default_user_are_roots() {
    let config = format!(
        "#cloud-config
chpasswd: {{expire: false, users: [{{name: root, password: x, type: RANDOM}}]}}
ssh_authorized_keys: [{KEY}]"
    );
    let mut guest = guest(GUEST);
    apply(&mut guest, &step(&config)).unwrap();
    assert!(text(&guest, "/root/.ssh/authorized_keys").contains("AAAAC3Nza"));
    let report = guest.report("cloud-init");
    assert_eq!(report.secrets.len(), 1);
    assert!(report.notes.join("\n").contains("applied to root"));
}

#[test]
fn encodings_are_those_of_cloud_init() {
    use std::io::Write;

    use base64ct::{Base64, Encoding};

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"packed\n").unwrap();
    let content = Base64::encode_string(&gzip.finish().unwrap());
    let config = format!(
        "#cloud-config\nwrite_files: [{{path: /x, content: \"{content}\", encoding: gz+b64}}]"
    );
    assert_eq!(text(&after(GUEST, &step(&config)), "/x"), "packed\n");
    for wrong in [
        "encoding: rot13",
        "encoding: b64",
        "encoding: gz",
        "permissions: 0999",
    ] {
        let config = format!("#cloud-config\nwrite_files: [{{path: /x, content: \"*\", {wrong}}}]");
        let applied = apply(&mut guest(GUEST), &step(&config));
        assert!(applied.is_err(), "{wrong}");
    }
}

#[test]
fn what_only_cloud_init_takes_apart_is_refused() {
    for (text, told) in [
        ("Content-Type: multipart/mixed; boundary=x", "multipart"),
        ("#include\nhttps://example.org/x", "#include"),
        ("## template: jinja\n#cloud-config\n", "template"),
        ("hello", "unknown form"),
        ("#cloud-config\n- a", "expected a map"),
        ("#cloud-config\na: [", "invalid #cloud-config"),
        ("#cloud-config\nusers: [{shell: x}]", "missing key `name`"),
        ("#cloud-config\nruncmd: [{a: b}]", "invalid command"),
    ] {
        let error = apply(&mut guest(GUEST), &step(text)).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_guest_with_cloud_init_finds_it_there() {
    let tree = format!("{GUEST}-- /etc/cloud/cloud.cfg --\nx\n");
    let with = after(&tree, &step("#cloud-config\nhostname: web1"));
    let seed = "/var/lib/cloud/seed/nocloud";
    let data = text(&with, &format!("{seed}/user-data"));
    assert_eq!(data.trim_end(), "#cloud-config\nhostname: web1");
    let meta = text(&with, &format!("{seed}/meta-data"));
    assert!(meta.starts_with("instance-id: iid-"), "{meta}");
    assert_eq!(text(&with, "/etc/hostname"), "old\n");
    // A disabled cloud-init does not read the seed.
    let off = "- cloud-init: {enabled: false, user-data: \"#cloud-config\\nhostname: web1\\n\"}";
    assert_eq!(text(&after(&tree, off), "/etc/hostname"), "web1\n");
    let both = "- cloud-init: {user-data: \"#!/bin/sh\", seed: {user-data: x}}";
    assert!(apply(&mut guest(&tree), both).is_err());
}
