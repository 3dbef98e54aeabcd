//! Programs in C, compiled with the header and linked with both kinds of the library: what they see
//! of images, of errors and of their own mistakes. Under valgrind they leak nothing.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use diskfs_fixtures::{have, image, run, run_with_input};
use diskfs_session::{Access, Session, SessionOptions};
use serde_json::Value;

/// The libraries that the static library needs (`cargo rustc -- --print native-static-libs`).
const NATIVE: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

const PLAN: &str = "steps: [{write: {path: /etc/motd, text: from a program in C}}]";

/// The kind of linking.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Linking {
    Shared,
    Static,
}

/// A directory with the library under its installed names.
fn installed() -> &'static Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let test = std::env::current_exe().unwrap();
        let built = test.parent().unwrap();
        for (file, name) in [
            ("libdiskfs_c.so", "libdiskfs.so"),
            ("libdiskfs_c.so", "libdiskfs.so.0"),
            ("libdiskfs_c.a", "libdiskfs.a"),
        ] {
            symlink(built.join(file), directory.path().join(name)).unwrap();
        }
        directory
    });
    directory.path()
}

/// Compiles a program, and returns its path.
fn compile(source: &str, linking: Linking, directory: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = directory.join(format!("program-{linking:?}"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-pthread"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .arg("-I")
        .arg(root)
        .arg(root.join(source))
        .arg("-o")
        .arg(&program);
    match linking {
        Linking::Shared => compiler.arg("-L").arg(installed()).arg("-ldiskfs"),
        Linking::Static => compiler.arg(installed().join("libdiskfs.a")).args(NATIVE),
    };
    let output = compiler.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    program
}

/// Runs a program, which must succeed, and returns what it prints.
fn output_of(program: &Path, words: &[&str]) -> String {
    let mut command = Command::new(program);
    output(command.args(words))
}

/// Runs a program under valgrind.
fn checked(program: &Path, words: &[&str]) -> String {
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--error-exitcode=99", "--leak-check=full"])
        .args(["--errors-for-leak-kinds=definite,indirect"])
        .arg(program)
        .args(words);
    output(&mut command)
}

fn output(command: &mut Command) -> String {
    let output = command.env("LD_LIBRARY_PATH", installed()).output();
    let output = output.unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {messages}");
    String::from_utf8(output.stdout).unwrap()
}

/// A copy of a fixture's image that a program may change.
struct Copy(tempfile::TempDir);

impl Copy {
    fn of(fixture: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::copy(image(fixture).path(), directory.path().join("disk")).unwrap();
        Self(directory)
    }

    fn path(&self) -> String {
        self.0.path().join("disk").to_str().unwrap().to_owned()
    }

    fn check(&self) {
        if have(&["e2fsck"]) {
            run("e2fsck", ["-fn", &self.path()]).unwrap();
        }
    }
}

/// Makes an encrypted image with the passphrase `secret`.
fn encrypted(directory: &Path) -> String {
    let path = directory.join("encrypted").to_str().unwrap().to_owned();
    File::create(&path).unwrap().set_len(16 << 20).unwrap();
    let options = "luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let options = options.split(' ').chain(["--key-file=-", &path]);
    run_with_input("cryptsetup", options, "secret").unwrap();
    path
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn the_examples_work_with_both_kinds_of_the_library() {
    if !have(&["cc"]) {
        return;
    }
    for linking in [Linking::Shared, Linking::Static] {
        let directory = tempfile::tempdir().unwrap();
        let program = compile("examples/files.c", linking, directory.path());
        let copy = Copy::of("ext4-default");
        let told = output_of(&program, &[&copy.path()]);
        assert!(told.starts_with("disk: "), "{told}");
        assert!(told.contains(" bytes, ext4\n"), "{told}");
        assert!(told.contains("/lost+found/\n"), "{told}");
        assert!(told.ends_with("by a program in C\n"), "{told}");
        copy.check();

        if linking == Linking::Static {
            continue;
        }
        let program = compile("examples/deploy.c", linking, directory.path());
        let copy = Copy::of("demo.qcow2");
        let told = output_of(&program, &[&copy.path(), PLAN]);
        let documents = lines(&told);
        let [deployed, inspected] = documents[..] else {
            panic!("{told}");
        };
        let deployed: Value = serde_json::from_str(deployed).unwrap();
        assert_eq!(deployed["diskfs"]["command"], "deploy");
        let step = &deployed["guests"][0]["steps"][0];
        assert_eq!(step["changed"][0], "/etc/motd", "{deployed}");
        let inspected: Value = serde_json::from_str(inspected).unwrap();
        assert!(inspected["systems"][0]["distribution"].is_string());
    }
}

#[test]
fn misuse_is_an_error() {
    if !have(&["cc", "valgrind"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("tests/abi.c", Linking::Shared, directory.path());
    let fixture = image("ext4-default");
    let told = checked(&program, &["misuse", fixture.path().to_str().unwrap()]);
    let image = fixture.path();
    let image = image.display();
    let expected = [
        "invalid 22: path: missing argument (NULL)".to_owned(),
        "invalid 22: options: missing argument (NULL)".to_owned(),
        "invalid 22: invalid access 77".to_owned(),
        "invalid 22: format: invalid UTF-8 at byte 1".to_owned(),
        "unsupported 95: unsupported image format `cloop`; supported: raw, qcow2, vdi, vhd (vpc), \
         vhdx, vmdk, qed, parallels, qcow, dmg, ova, compressed; convert others with \
         `qemu-img convert -O qcow2`"
            .to_owned(),
        "invalid 22: missing buffer (NULL)".to_owned(),
        "invalid 22: volume: invalid UTF-8 at byte 0".to_owned(),
        format!("not_found 2: {image}: no such volume: `p99`; available: disk"),
        "invalid 22: path: missing argument (NULL)".to_owned(),
        "invalid 22: invalid file mode 99".to_owned(),
        format!("is_a_directory 21: {image}:/: is a directory"),
        format!(
            "read_only 30: {image}: the disk is open read-only; open it for writing, with an \
             overlay or as a dry run"
        ),
    ];
    assert_eq!(lines(&told), expected);
}

#[test]
fn changes_are_there_when_the_image_is_opened_again() {
    if !have(&["cc", "valgrind"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("tests/abi.c", Linking::Shared, directory.path());
    let copy = Copy::of("ext4-default");
    let told = checked(&program, &["change", &copy.path()]);
    let kinds: Vec<&str> = told.lines().filter_map(|it| it.split(':').next()).collect();
    let expected = [
        "other 39",
        "exists 17",
        "invalid 22",
        "exists 17",
        "invalid 22",
        "read_only 30",
    ];
    assert_eq!(kinds, expected, "{told}");
    copy.check();
}

#[test]
fn threads_share_a_disk() {
    if !have(&["cc"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("tests/abi.c", Linking::Shared, directory.path());
    let copy = Copy::of("ext4-default");
    assert_eq!(output_of(&program, &["threads", &copy.path()]), "");
    copy.check();
}

#[test]
fn plans_are_applied() {
    if !have(&["cc", "valgrind"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("tests/abi.c", Linking::Shared, directory.path());
    let copy = Copy::of("demo.qcow2");
    let told = checked(&program, &["deploy", &copy.path(), PLAN]);
    let told = lines(&told);
    let [cancelled, invalid, deployed, inspected, info] = told[..] else {
        panic!("{told:?}");
    };
    assert!(cancelled.starts_with("cancelled 125: "), "{cancelled}");
    assert!(cancelled.ends_with("; nothing was changed"), "{cancelled}");
    assert!(
        invalid.starts_with("invalid 22: invalid plan: "),
        "{invalid}"
    );
    for (document, command) in [(deployed, "deploy"), (inspected, "inspect"), (info, "info")] {
        let document: Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["diskfs"]["command"], command);
        assert_eq!(document["diskfs"]["version"], 1);
    }
    assert!(inspected.contains("\"sources\""));
}

/// A program sees why an image can't be used.
#[test]
fn unusable_images_are_errors() {
    if !have(&["cc"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile("tests/abi.c", Linking::Shared, directory.path());
    let list = |words: &[&str]| output_of(&program, &[&["list"], words].concat());

    assert_eq!(
        list(&["/missing/disk.qcow2"]),
        "not_found 2: /missing/disk.qcow2: no such file or directory\n"
    );

    let corrupt = Copy::of("ext4-default");
    let file = File::options().write(true).open(corrupt.path()).unwrap();
    file.write_all_at(b"x", 1024 + 0x78).unwrap();
    let told = list(&[&corrupt.path()]);
    assert!(told.starts_with("corrupt 117: "), "{told}");

    let in_use = Copy::of("ext4-default");
    let options = SessionOptions::with_access(Access::Write);
    let session = Session::open(in_use.path(), &options).unwrap();
    let told = list(&[&in_use.path()]);
    assert!(told.starts_with("locked 16: "), "{told}");
    session.close().unwrap();
    assert!(list(&[&in_use.path()]).contains("lost+found\n"));

    if have(&["cryptsetup"]) {
        let encrypted = encrypted(directory.path());
        let told = list(&[&encrypted]);
        assert!(told.starts_with("denied 13: "), "{told}");
        let told = list(&[&encrypted, "wrong"]);
        assert!(told.starts_with("denied 13: "), "{told}");
        // The volume has no filesystem inside.
        let told = list(&[&encrypted, "secret"]);
        assert!(told.contains("it is unlocked as disk/luks"), "{told}");
    }

    let full = Copy::of("ext4-default");
    let told = output_of(&program, &["fill", &full.path()]);
    assert!(told.starts_with("no_space 28: "), "{told}");
}
