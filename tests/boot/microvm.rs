//! The program with its microVM in a guest whose kernel enforces the package's `AppArmor` profile.

use std::path::Path;

use anyhow::Result;
use diskfs_fixtures::{have, require_appliance, run};

use crate::images::images;
use crate::machine::Start;
use crate::{DISKFS, Guest};

/// Commands as root and another user use them, and then attacks that the profile must refuse, even to
/// the programs that diskfs runs. Without the profile, they succeed.
const COMMANDS: &str = r#"
cd /root
dmesg -n 1
modprobe fuse
apparmor_parser --replace /etc/apparmor.d/diskfs
grep 'diskfs (enforce)' /sys/kernel/security/apparmor/profiles

echo hello > hello
diskfs create -f qcow2 disk.qcow2 128M
diskfs mkfs ext4 disk.qcow2
diskfs cp hello disk.qcow2:/hello
EDITOR='sed -i s/hello/edited/' diskfs edit disk.qcow2:/hello
diskfs convert -O vmdk disk.qcow2 disk.vmdk
diskfs mount --rw disk.qcow2 /mnt
cp /mnt/hello /mnt/copy
diskfs umount /mnt
mount -t diskfs -o ro /root/disk.vmdk /mnt
grep edited /mnt/hello
umount /mnt
diskfs export disk.qcow2 --nbd unix:socket --once &
until test -e socket; do sleep 1; done
diskfs cat nbd+unix:///?socket=socket:/copy
wait
timeout 5 diskfs info http://localhost:1/disk.raw || test $? != 2
diskfs ls --driver vm --vm uml disk.qcow2:/ | grep copy

useradd --create-home ann
install -o ann -m 600 disk.qcow2 /home/ann
install -o ann -d /home/ann/mounted
su ann -c 'cd; diskfs mount disk.qcow2 mounted && cat mounted/copy && diskfs umount mounted'
su ann -c 'cd; diskfs cat --driver vm --vm uml disk.qcow2:/copy'

if dmesg | grep 'apparmor="DENIED"'; then exit 1; fi

refused() {
    sh -c "$1"
    if aa-exec --profile diskfs -- sh -c "$1"; then exit 1; fi
}
refused 'mount -t tmpfs none /mnt'
refused 'umount /mnt && modprobe dummy && modprobe -r dummy'
refused 'echo 0 > /proc/sys/vm/overcommit_memory'
refused 'echo 0 > /proc/sysrq-trigger'
refused ': < /dev/mem'
refused ': > /lib/modules/new'
echo "marker: $((6 * 7))"
"#;

/// Packs the files of the package with its profile in enforce mode, of its appliance, and of the
/// packages that the guest lacks.
const PACK: &str = r#"
DISKFS_LICENCES=/dev/null "$1"/packaging/install "$2" root
sed -i 's/ flags=(complain)//' root/etc/apparmor.d/diskfs
cp -a /etc/apparmor.d/abi /etc/apparmor.d/abstractions /etc/apparmor.d/tunables root/etc/apparmor.d
cp -a --parents /usr/sbin/apparmor_parser /usr/bin/aa-exec /usr/bin/fusermount3 root
cp -a "$3"/uml* "$3"/tools* "$3"/diskfs-agent root/usr/lib/diskfs
tar --owner=0 --group=0 -C root -cf root.tar .
"#;

#[test]
fn debian_enforces_the_profile() -> Result<()> {
    let (Some(images), Some(appliance)) = (images(), require_appliance()) else {
        return Ok(());
    };
    if !have(&["apparmor_parser", "aa-exec", "fusermount3"]) {
        return Ok(());
    }
    let guest = Guest::new(images, "ifupdown.raw")?;
    let words = [
        "-C".as_ref(),
        guest.work.path(),
        "sh".as_ref(),
        "-ec".as_ref(),
        PACK.as_ref(),
    ];
    let own = ["sh", env!("CARGO_MANIFEST_DIR"), DISKFS].map(Path::new);
    run("env", words.into_iter().chain(own).chain([&*appliance]))?;
    guest.diskfs(&["tar-in", "--file", "root.tar", "guest.qcow2:/"])?;
    guest.runs(COMMANDS)?;
    let mut machine = guest.start(Start::Kernel { root: "LABEL=root" })?;
    machine.expect("marker: 42")?;
    machine.is_off()
}
