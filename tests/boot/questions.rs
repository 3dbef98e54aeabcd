//! The questions for every guest, and the expected answers.

use super::machine::MAC;

/// The questions: a name, the command whose output in the guest's shell is the answer, and the
/// expected answer.
pub(crate) const QUESTIONS: &[(&str, &str, &str)] = &[
    ("name", "hostname", "web1"),
    ("full name", "hostname --fqdn", "web1.example.org"),
    (
        "other host",
        "getent hosts db1.example.org",
        "192.0.2.5 db1.example.org",
    ),
    (
        "machine ID",
        "cat /etc/machine-id",
        "0123456789abcdef0123456789abcdef",
    ),
    (
        "time zone",
        "timedatectl show -p Timezone --value",
        "Europe/Berlin",
    ),
    (
        "user",
        "getent passwd ann",
        "ann:x:1234:1234:Ann Example:/home/ann:/bin/bash",
    ),
    ("groups", "id -Gn", "ann adm"),
    (
        "home",
        "stat -c '%a %U:%G' ~ ~/.ssh ~/.ssh/authorized_keys ~/.bashrc",
        "755 ann:ann 700 ann:ann 600 ann:ann 644 ann:ann",
    ),
    ("sudo", "echo $PASSWORD | sudo -S -p '' id -u", "0"),
    (
        "root",
        "echo $PASSWORD | sudo -S -p '' passwd -S root | cut -d' ' -f1,2",
        "root L",
    ),
    ("MAC", "cat /sys/class/net/wan0/address", MAC),
    (
        "address",
        "ip -4 -o address show dev wan0 | awk '{print $4}'",
        "10.0.2.15/24",
    ),
    ("MTU", "cat /sys/class/net/wan0/mtu", "1400"),
    (
        "gateway",
        "ip route show default | awk '{print $3, $5}'",
        "10.0.2.2 wan0",
    ),
    (
        "route",
        "ip route show 192.0.2.0/24 | awk '{print $3, $5}'",
        "10.0.2.9 wan0",
    ),
    (
        "metadata",
        "ip route get 169.254.169.254 | awk 'NR == 1 {print $1, $2, $3}'",
        "169.254.169.254 dev wan0",
    ),
    (
        "name server",
        "awk '$1 == \"nameserver\" {print $2}' /etc/resolv.conf",
        "10.0.2.3",
    ),
    (
        "search",
        "awk '$1 == \"search\" {print $2}' /etc/resolv.conf",
        "example.org",
    ),
    ("swappiness", "cat /proc/sys/vm/swappiness", "17"),
    ("module", "ls -d /sys/module/dummy", "/sys/module/dummy"),
    (
        "mount",
        "findmnt -n -o FSTYPE,OPTIONS /srv/scratch | grep -o 'tmpfs\\|size=[^,]*\\|mode=[^,]*'",
        "tmpfs size=1024k mode=750",
    ),
    (
        "unit",
        "systemctl is-active mark; cat /run/mark",
        "active marked",
    ),
    ("masked", "systemctl is-enabled apt-daily.timer", "masked"),
    (
        "file",
        "stat -c '%a %U:%G' /etc/motd; cat /etc/motd",
        "640 root:adm deployed",
    ),
    ("first boot", "cat /var/lib/hello", "hello from web1"),
    ("scripts left", "ls /usr/local/lib/diskfs/firstboot.d", ""),
    (
        "swap",
        "/sbin/swapon --show=NAME,SIZE --noheadings --bytes",
        "/swap.img 8384512",
    ),
    ("udev rule", "readlink /dev/deployed-null", "null"),
    (
        "repository",
        "apt-get --print-uris update 2>&1 | grep -c 'deb.example.org.*InRelease'",
        "1",
    ),
    ("template", "cat /etc/deployed", "web1 on debian, port 80"),
    (
        "archive",
        "cd /opt/app; stat -c '%n %a %U:%G' *; cat file",
        "file 640 ann:ann link 777 ann:ann of the archive",
    ),
    (
        "agent",
        "systemctl is-active deployed-agent; cat /run/deployed-agent",
        "active runs",
    ),
    (
        "user of user data",
        "getent passwd bob | cut -d: -f1,5-",
        "bob:Bob:/home/bob:/bin/sh",
    ),
    ("file of user data", "stat -c %a /etc/from-user-data", "600"),
    ("command of user data", "cat /var/lib/from-user-data", "ran"),
    ("failed", "systemctl --failed --no-legend --plain", ""),
    (
        "console",
        "systemctl is-active serial-getty@ttyS0",
        "active",
    ),
];
