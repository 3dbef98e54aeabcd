//! Comparison of the parsers with the programs that read these files: glibc, libmount, OpenSSH,
//! sudo.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_etc::authorized_keys::AuthorizedKeys;
use diskfs_etc::fstab::Fstab;
use diskfs_etc::sshd_config::Config;
use diskfs_etc::sudoers::{self, Item};
use diskfs_etc::table::Table;
use diskfs_etc::{Files, group, passwd};
use diskfs_fixtures::require;

/// The filesystem of the host. `*` is supported in the last component of a pattern.
struct Host;

impl Files for Host {
    type Error = io::Error;

    fn text(&self, path: &str) -> io::Result<Option<String>> {
        fs::read_to_string(path).map(Some)
    }

    fn names(&self, dir: &str) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().unwrap()));
        let mut names: Vec<String> = names.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }

    fn expand(&self, pattern: &str) -> io::Result<Vec<String>> {
        let (dir, name) = pattern.rsplit_once('/').unwrap();
        let (start, end) = name.split_once('*').unwrap_or((name, ""));
        let mut names = self.names(dir)?;
        names.retain(|name| name.starts_with(start) && name.ends_with(end));
        Ok(names.iter().map(|name| format!("{dir}/{name}")).collect())
    }
}

/// Returns the absolute path of a program that refuses to run under a relative one.
fn whole_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut programs = dirs.map(|dir| dir.join(program));
    programs.find(|path| path.is_file()).unwrap()
}

/// Returns a command that runs in a sandbox in which some files of the host are replaced.
fn with_files(files: &[(&Path, &str)]) -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--dev-bind",
        "/",
        "/",
        "--tmpfs",
        "/run",
        "--dir",
        "/run/sshd",
    ]);
    for (file, place) in files {
        command.arg("--ro-bind").arg(file).arg(place);
    }
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn are_installed(programs: &[&str]) -> bool {
    programs.iter().all(|program| require(program).is_some())
}

/// Returns getent's list of a database whose file has this text.
fn getent(database: &str, text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let mut command = with_files(&[(file.path(), &format!("/etc/{database}"))]);
    output(command.args(["getent", "-s", "files", database]))
}

#[test]
fn users_are_those_of_glibc() {
    if !are_installed(&["bwrap", "getent"]) {
        return;
    }
    let text = "root:x:0:0:root:/root:/bin/sh\n\n# c:x:1:1:::\n \tblank:x: 5:007:c\nshort:x:1:2\nnone:x:1\nbad:x:a:1:::\nempty::8:8:::\nroot:x:7:7:::\nlast:*:10:10:a,b:/:/bin/false";
    let table = Table::new(text);
    let ours = passwd::users(&table).map(|user| {
        let (name, hash, uid, gid) = (user.name, user.password, user.uid, user.gid);
        let (comment, home, shell) = (user.comment, user.home, user.shell);
        format!("{name}:{hash}:{uid}:{gid}:{comment}:{home}:{shell}\n")
    });
    assert_eq!(ours.collect::<String>(), getent("passwd", text));
}

#[test]
fn groups_are_those_of_glibc() {
    if !are_installed(&["bwrap", "getent"]) {
        return;
    }
    let text = "root:x:0:\nshort:x:4\n a:x: 5:ann, bob,,carl\n#b:x:6:\nbad:x::\nbad\n";
    let table = Table::new(text);
    let ours = group::groups(&table).map(|group| {
        let members: Vec<_> = group.members().collect();
        format!("{}:x:{}:{}\n", group.name, group.gid, members.join(","))
    });
    assert_eq!(ours.collect::<String>(), getent("group", text));
}

#[test]
fn mounts_are_those_of_libmount() {
    if !are_installed(&["findmnt"]) {
        return;
    }
    let text = "# x\nUUID=0a \t / ext4 errors=remount-ro,x=y 0 1\r\n\n  # y\nLABEL=my\\040data /my\\040data auto defaults\n/dev/vg0/x /sr\\134v\\011 ext4 ro 0 2 # z\n\\043x /b\\303\\244 none rbind\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let columns = [
        "--list",
        "--json",
        "-o",
        "SOURCE,TARGET,FSTYPE,OPTIONS,FREQ,PASSNO",
    ];
    let mut findmnt = Command::new("findmnt");
    let said = output(findmnt.args(columns).arg("--tab-file").arg(file.path()));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let theirs: Vec<String> = said["filesystems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let of = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| it[name].to_string().replace('"', "");
            let texts = ["source", "target", "fstype", "options"].map(of);
            format!("{texts:?} {} {}", number("freq"), number("passno"))
        })
        .collect();
    let fstab = Fstab::new(text);
    let ours = fstab.entries().map(|(_, it)| {
        let texts = [it.device, it.path, it.kind, it.options];
        format!("{texts:?} {} {}", it.dump, it.pass)
    });
    assert_eq!(ours.collect::<Vec<_>>(), theirs);
}

#[test]
fn settings_are_those_of_sshd() {
    if !are_installed(&["sshd", "ssh-keygen", "bwrap"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let keygen = ["-q", "-t", "ed25519", "-N", "", "-f"];
    output(Command::new("ssh-keygen").args(keygen).arg(at("key")));
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let users = format!("{users}\nsshd:x:105:65534::/run/sshd:/bin/false\n");
    fs::write(at("passwd"), users).unwrap();
    let here = dir.path().to_str().unwrap();
    fs::write(at("a.conf"), "Match User bob\nPermitRootLogin yes\n").unwrap();
    fs::write(
        at("b.conf"),
        format!("Include {here}/in\nMatch all\nMaxAuthTries 2\n"),
    )
    .unwrap();
    fs::write(at("in"), "permitrootlogin = \"no\" # not yes\n").unwrap();
    for main in [
        format!("Include {here}/*.conf\nPermitRootLogin yes\nMaxAuthTries 5\nPort 2022\n"),
        format!("PermitRootLogin=forced-commands-only\n\"Include\" {here}/b.conf {here}/a.conf\n"),
        format!(
            "Match User ann\nMaxAuthTries 7\nInclude {here}/in\nMatch All\nMaxAuthTries 3\nPort 22\nPort 2222\n"
        ),
        "\tMaxAuthTries\t4\u{c}\nAllowUsers ann \"b c\"'d' # e\nBanner \"/a\\\\b\"\r\n".to_owned(),
    ] {
        fs::write(at("config"), &main).unwrap();
        let mut sshd = with_files(&[(&at("passwd"), "/etc/passwd")]);
        sshd.arg(whole_path("sshd")).args(["-T", "-f"]);
        let said = output(sshd.arg(at("config")).arg("-h").arg(at("key")));
        let config = Config::of(&Host, "config", &main).unwrap();
        for (keyword, default) in [
            ("permitrootlogin", "without-password"),
            ("maxauthtries", "6"),
            ("banner", "none"),
        ] {
            let first = config.first(keyword);
            let ours = first.map_or(default, |setting| setting.arguments[0].as_str());
            assert!(
                said.contains(&format!("{keyword} {ours}\n")),
                "{main}: {keyword} {ours}"
            );
        }
        let all = |keyword: &str| -> Vec<String> {
            let settings = config.of_keyword(keyword);
            settings
                .flat_map(|setting| setting.arguments.clone())
                .collect()
        };
        for keyword in ["port", "allowusers"] {
            let values = said.lines().filter_map(|line| line.strip_prefix(keyword));
            let theirs: Vec<_> = values.map(|value| value.trim().to_owned()).collect();
            let ours = all(keyword);
            assert!(
                theirs == ours || keyword == "port" && ours.is_empty(),
                "{main}: {theirs:?}"
            );
        }
    }
}

#[test]
fn keys_are_those_of_ssh_keygen() {
    if !are_installed(&["ssh-keygen"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut text = "# no key\n\nssh-ed25519 AAAA broken\n".to_owned();
    for (kind, bits) in [("ed25519", "256"), ("ecdsa", "384"), ("rsa", "1024")] {
        let path = dir.path().join(kind);
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-N", "", "-C", kind, "-t", kind, "-b", bits, "-f"]);
        output(keygen.arg(&path));
        let line = fs::read_to_string(path.with_extension("pub")).unwrap();
        let line = line.trim();
        // sshd does not decode a key whose padding is missing.
        let (bare, broken) = (line.replace('=', ""), line.replacen(" AAAA", " AAAB", 1));
        let options = "no-pty,command=\"x \\\"y\\\\\" z\"";
        text += &[
            line,
            &format!("  {line} b\r"),
            &format!("{options} {line} c"),
            &bare,
            &broken,
            "",
        ]
        .join("\n");
    }
    let file = dir.path().join("keys");
    fs::write(&file, &text).unwrap();
    let said = output(Command::new("ssh-keygen").arg("-lf").arg(&file)).replace('\r', "");
    // `256 SHA256:... the comment (ED25519)`.
    let comment = |line: &str| {
        let (start, _) = line.rsplit_once(' ').unwrap();
        start.splitn(3, ' ').nth(2).unwrap().to_owned()
    };
    let theirs: Vec<_> = said.lines().map(comment).collect();
    let keys = AuthorizedKeys::new(text);
    let ours: Vec<_> = keys.keys().map(|(_, key)| key.comment).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn rules_are_those_of_sudo() {
    if !are_installed(&["cvtsudoers"]) {
        return;
    }
    let text = "# comment \\\nann ALL=(ALL) ALL # trailing \\\nDefaults:ann !lecture\nDefaults env_reset\n\
        #1000 ALL = (root) NOPASSWD: /bin/ls, \\  \n  /bin/cat\nUser_Alias ADM = dan, \\\n  eve\nHost_Alias H1 = a\nHost_Alias H2 = b\n\
        bob , carl ALL=/bin/sh\n\"a b\" , !dan H1, H2 = ALL\nUser_AliasX ALL=ALL\nx\\ y ALL=(#0) NOPASSWD:ALL, PASSWD: /bin/x : H1 = NOPASSWD: ALL\n\
        +ng ALL=ALL\n%#100 ALL=ALL\n\t%wheel ALL=(ALL) NOPASSWD  :  ALL\nADM ALL=/bin/a \\#1 b\\\\\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let mut cvtsudoers = diskfs_fixtures::command("cvtsudoers");
    cvtsudoers.args(["-f", "sudoers", "-s", "aliases,defaults"]);
    let said = output(cvtsudoers.arg(file.path()));
    let plain = |text: &str| text.replace(['"', '\\', ' ', '\t', '\n'], "");
    let theirs: Vec<_> = said
        .split("\n\n")
        .map(plain)
        .filter(|it| !it.is_empty())
        .collect();
    let ours = sudoers::items(text).map(|(_, item)| match item {
        Item::Rule(rule) => plain(&format!("{} {}", rule.who, rule.may)),
        _ => panic!("{item:?}"),
    });
    assert_eq!(ours.collect::<Vec<_>>(), theirs);
}
