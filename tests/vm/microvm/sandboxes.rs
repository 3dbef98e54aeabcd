//! Restricted environments, in which diskfs works, too.

use std::path::PathBuf;
use std::process::{Command, Output};

use diskfs_fixtures::{Workshop, require_root, run};

use super::{DISKFS, appliance, at, check, require_all, stderr};

/// An XFS to work on, and the path of the appliance.
struct XfsFixture {
    appliance: PathBuf,
    image: PathBuf,
    shop: Workshop,
}

impl XfsFixture {
    fn new(programs: &[&str]) -> Option<Self> {
        let appliance = appliance()?.canonicalize().unwrap();
        require_all(&["mkfs.xfs", "xfs_repair"])?;
        require_all(programs)?;
        let shop = Workshop::new().unwrap();
        let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
        run("mkfs.xfs", ["-q".as_ref(), image.as_os_str()]).unwrap();
        Some(Self {
            appliance,
            image,
            shop,
        })
    }

    /// Makes a directory on it inside of `sandbox`.
    fn write_in(&self, mut sandbox: Command) {
        let output = sandbox
            .args([DISKFS, "mkdir"])
            .arg(at(&self.image, "/made"))
            .args(["--vm", "uml"])
            .env("DISKFS_APPLIANCE", &self.appliance)
            .env_remove("TMPDIR")
            .output()
            .expect("start the sandbox");
        well(&output);
        check("xfs_repair", &["-n"], &self.image);
    }
}

fn well(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

#[test]
fn without_any_namespace_of_the_host() {
    let Some(fixture) = XfsFixture::new(&["bwrap"]) else {
        return;
    };
    let dir = fixture.image.parent().unwrap();
    let mut bwrap = Command::new("bwrap");
    bwrap
        .args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"])
        .args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"])
        .arg("--bind")
        .args([dir, dir])
        .arg("--ro-bind")
        .args([DISKFS, DISKFS])
        .arg("--ro-bind")
        .args([&fixture.appliance, &fixture.appliance]);
    fixture.write_in(bwrap);
}

#[test]
fn where_dev_shm_runs_no_programs() {
    let Some(fixture) = XfsFixture::new(&["unshare", "mount"]) else {
        return;
    };
    if require_root().is_none() {
        return;
    }
    let mut unshare = Command::new("unshare");
    let script = "mount -t tmpfs -o noexec none /dev/shm && exec \"$@\"";
    unshare.args(["--mount", "sh", "-c", script, "sh"]);
    fixture.write_in(unshare);
}

/// The program that forbids `ptrace` by seccomp and executes another program.
const WITHOUT_PTRACE: &str = r"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { 4, rules };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 125;
    execvp(argv[1], argv + 1);
    return 127;
}
";

#[test]
fn where_ptrace_is_denied() {
    let Some(fixture) = XfsFixture::new(&["cc"]) else {
        return;
    };
    let source = fixture.shop.path("without_ptrace.c");
    std::fs::write(&source, WITHOUT_PTRACE).unwrap();
    let program = fixture.shop.path("without_ptrace");
    run(
        "cc",
        ["-o".as_ref(), program.as_os_str(), source.as_os_str()],
    )
    .unwrap();
    fixture.write_in(Command::new(program));
}
