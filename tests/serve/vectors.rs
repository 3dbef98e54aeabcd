//! Requests, and what the host-deployer itself wrote for them (`vectors/NN.out`): ours may write
//! other files, but the guest must end up with the same settings.
//!
//! Differences that are meant:
//!
//! | setting | host-deployer | diskfs | reason |
//! |---|---|---|---|
//! | names of interfaces | `70-persistent-net.rules` | a `.link` file with systemd | udev's rules collide with the kernel's names |
//! | hardware address | `hwaddress` in `interfaces` | not set | it is that of the interface already |
//! | options of a bond | at its VLAN | at the bond | ifupdown ignores them at the VLAN |
//! | addresses of hosts without a domain | the name twice | the name once | |
//! | file names in `/etc/hostname` | mode 0755, no line break | the file's mode, a line | hostname(5) |
//! | data disks | `defaults` | `defaults,nofail` | a detached disk must not stop the boot |
//! | resolved | `resolved.conf` is replaced | a drop-in | other settings stay |
//! | sshd | an empty drop-in | none | it says nothing |
//! | cloud-config | a script that runs at the first boot | users, keys and files are made offline | see guests/deploy/DESIGN.md |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::guest::{check, debian};
use super::server::Server;
use super::text;

const VECTORS: [&str; 6] = ["01", "03", "04", "11", "13", "14"];

/// The answer of the host-deployer, and the files that it wrote.
struct Expected {
    answer: Value,
    files: BTreeMap<String, String>,
}

impl Expected {
    fn read(name: &str) -> Self {
        let path = format!(
            "{}/tests/serve/vectors/{name}.out",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = fs::read_to_string(path).unwrap();
        let (head, rest) = text.split_once("\ndriver:").unwrap();
        let answer = head
            .trim_start_matches("response:")
            .trim_end_matches("<nil>");
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        let mut present = String::new();
        for line in rest.lines().skip(1) {
            if let Some(path) = line.strip_prefix("-- ") {
                present = format!("/{}", path.split(' ').next().unwrap());
                files.insert(present.clone(), String::new());
            } else {
                files.get_mut(&present).unwrap().extend([line, "\n"]);
            }
        }
        Self {
            answer: serde_json::from_str(answer).unwrap(),
            files,
        }
    }

    fn file(&self, path: &str) -> &str {
        self.files.get(path).map(String::as_str).unwrap_or_default()
    }
}

#[test]
fn guests_get_what_the_host_deployer_gives_them() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    for name in VECTORS {
        let image = format!("{name}.img");
        if debian(&server.path(&image), "48M").is_none() {
            return;
        }
        let request = format!(
            "{}/tests/serve/vectors/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut request: Value =
            serde_json::from_str(&fs::read_to_string(request).unwrap()).unwrap();
        request["disk_info"] = server.image(&image);
        let expected = Expected::read(name);
        assert_eq!(
            server.answer("DeployGuestFs", &request),
            expected.answer,
            "{name}"
        );
        let guest = Guest {
            server: &server,
            image,
        };
        guest.compare(name, &expected);
        check(&server.path(&guest.image));
        // The same request changes nothing.
        let before = fs::read(server.path(&guest.image)).unwrap();
        server.answer("DeployGuestFs", &request);
        let is_same = before == fs::read(server.path(&guest.image)).unwrap();
        assert!(is_same, "{name}: the repeated request changes the image");
    }
}

struct Guest<'s> {
    server: &'s Server,
    image: String,
}

impl Guest<'_> {
    fn read(&self, path: &str) -> String {
        let operand = format!("{}:{path}", self.image);
        text(self.server.directory().path(), &["cat", &operand])
    }

    fn list(&self, path: &str) -> String {
        let operand = format!("{}:{path}", self.image);
        text(self.server.directory().path(), &["find", &operand])
    }

    fn compare(&self, name: &str, expected: &Expected) {
        assert_eq!(
            self.read("/etc/hostname").trim(),
            expected.file("/etc/hostname").trim()
        );
        assert_eq!(
            hosts(&self.read("/etc/hosts")),
            hosts(expected.file("/etc/hosts")),
            "{name}"
        );
        let (ours, theirs) = (
            self.read("/etc/network/interfaces"),
            expected.file("/etc/network/interfaces"),
        );
        assert_eq!(interfaces(&ours), interfaces(theirs), "{name}: {ours}");
        self.compare_names(expected);
        let resolved = self.read("/etc/systemd/resolved.conf.d/50-diskfs.conf");
        let theirs = expected.file("/etc/systemd/resolved.conf");
        for key in ["DNS=", "Domains="] {
            assert_eq!(
                words_after(&resolved, key),
                words_after(theirs, key),
                "{name}"
            );
        }
        let docker: Value = serde_json::from_str(&self.read("/etc/docker/daemon.json")).unwrap();
        assert_eq!(docker, json!({ "mtu": 1442 }));
        for rules in [
            "80-hotplug-cpu-mem.rules",
            "90-usb-tablet-remote-wakeup.rules",
        ] {
            let path = format!("/etc/udev/rules.d/{rules}");
            // The backslashes before the quotes are part of neither's meaning.
            assert_eq!(self.read(&path), expected.file(&path).replace("\\'", "'"));
        }
        self.compare_accounts();
        if expected.files.contains_key("/etc/fstab") {
            assert_eq!(
                fstab(&self.read("/etc/fstab")),
                fstab(expected.file("/etc/fstab"))
            );
        }
        match name {
            "13" => self.compare_files(),
            "14" => self.compare_user_data(),
            _ => {}
        }
    }

    /// Compares the names that udev gives to hardware addresses.
    fn compare_names(&self, expected: &Expected) {
        for line in expected
            .file("/etc/udev/rules.d/70-persistent-net.rules")
            .lines()
        {
            let quoted = |key: &str| line.split(key).nth(1).unwrap().split('"').next().unwrap();
            let (mac, name) = (quoted("ATTR{address}==\""), quoted(" NAME=\""));
            let link = self.read(&format!("/etc/systemd/network/10-diskfs-{name}.link"));
            assert!(link.contains(&format!("MACAddress={mac}\n")), "{link}");
            assert!(link.contains(&format!("Name={name}\n")), "{link}");
        }
    }

    fn compare_accounts(&self) {
        let passwd = self.read("/etc/passwd");
        let line = passwd
            .lines()
            .find(|line| line.starts_with("cloudroot:"))
            .unwrap();
        let fields: Vec<&str> = line.split(':').collect();
        let uid: u32 = fields[2].parse().unwrap();
        assert!(uid < 1000, "a system user: {line}");
        assert_eq!(fields[5..], ["/opt/cloudroot", "/bin/bash"]);
        let shadow = self.read("/etc/shadow");
        let fields = |name: &str| -> Vec<String> {
            let line = shadow.lines().find(|line| line.starts_with(name)).unwrap();
            line.split(':').map(str::to_owned).collect()
        };
        assert_eq!(fields("root:")[1], "*");
        assert_eq!(fields("cloudroot:")[1], "!");
        assert!(self.list("/opt").contains("cloudroot"));
    }

    fn compare_files(&self) {
        assert_eq!(self.read("/etc/app/conf.d/app.conf"), "a=1\n");
        assert_eq!(self.read("/new/dir/file"), "x");
        let motd = self.read("/etc/motd");
        assert!(motd.ends_with("free software.\nhello"), "{motd}");
    }

    /// The user data of vector 14: a user with a key and sudo, a file, commands, a package.
    fn compare_user_data(&self) {
        assert!(self.read("/etc/passwd").contains("\ndemo:x:1000:"));
        let keys = self.read("/home/demo/.ssh/authorized_keys");
        assert!(
            keys.contains("AAAAC3NzaC1lZDI1NTE5AAAAIIpV2M6Yl2xDEhNOq3hdZPcgnS/yLBfEWvwEJAtyrddq")
        );
        assert_eq!(self.read("/etc/x.conf"), "hi");
        let sudoers = self.list("/etc/sudoers.d");
        assert!(sudoers.lines().count() > 2, "{sudoers}");
        let scripts = self.list("/usr/local/lib/diskfs/firstboot.d");
        let all: String = scripts
            .lines()
            .filter(|path| path.contains("firstboot.d/"))
            .map(|path| self.read(path.trim_start_matches(&format!("{}:", self.image))))
            .collect();
        assert!(
            all.contains("touch /root/ran") && all.contains("nginx"),
            "{all}"
        );
    }
}

/// Returns the names of each address.
fn hosts(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line
            .split('#')
            .next()
            .unwrap()
            .split_whitespace()
            .map(str::to_owned);
        if let Some(address) = words.next() {
            hosts.entry(address).or_default().extend(words);
        }
    }
    hosts
}

/// Returns the settings of each interface, of all of its address families together.
fn interfaces(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut present = String::new();
    let mut address = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["iface", name, _, method] => {
                name.clone_into(&mut present);
                let method = if method == "manual" { "static" } else { method };
                found
                    .entry(present.clone())
                    .or_default()
                    .insert(method.to_owned());
            }
            ["address", it] => it.clone_into(&mut address),
            ["netmask", mask] => {
                let address = format!("address {address}/{}", bits(mask));
                found.get_mut(&present).unwrap().insert(address);
            }
            ["up", .., "add", to, "via", via, "||", "true"]
            | ["up", .., "add", to, "via", via, "dev", _, "||", "true"] => {
                let via = if matches!(via, "0.0.0.0" | "::") {
                    "link"
                } else {
                    via
                };
                found
                    .get_mut(&present)
                    .unwrap()
                    .insert(format!("route {to} {via}"));
            }
            ["up", .., "add", to, "dev", _, "||", "true"] => {
                found
                    .get_mut(&present)
                    .unwrap()
                    .insert(format!("route {to} link"));
            }
            []
            | [
                "auto" | "source" | "down" | "hwaddress" | "vlan-raw-device" | "vlan-id",
                ..,
            ] => {}
            [first, ..] if first.starts_with('#') => {}
            ["dns-nameservers", ref servers @ ..] => {
                let servers = servers.iter().map(|server| format!("dns {server}"));
                found.get_mut(&present).unwrap().extend(servers);
            }
            ["bond-mode", mode] => {
                let mode = if mode == "4" { "802.3ad" } else { mode };
                let bond = present.split('.').next().unwrap().to_owned();
                found
                    .get_mut(&bond)
                    .unwrap()
                    .insert(format!("bond-mode {mode}"));
            }
            [option, ..] if option.starts_with("bond-") && option != "bond-master" => {
                // The kernel's names and numbers are the same settings.
                let line = words
                    .join(" ")
                    .replace("xmit_hash_policy", "xmit-hash-policy");
                let line = line.replace("lacp-rate 1", "lacp-rate fast");
                let line = line.replace("xmit-hash-policy 1", "xmit-hash-policy layer3+4");
                let bond = present.split('.').next().unwrap().to_owned();
                found.get_mut(&bond).unwrap().insert(line);
            }
            _ => {
                found
                    .entry(present.clone())
                    .or_default()
                    .insert(words.join(" "));
            }
        }
    }
    found
}

fn bits(mask: &str) -> u32 {
    mask.parse().unwrap_or_else(|_| {
        let mask: std::net::Ipv4Addr = mask.parse().unwrap();
        mask.to_bits().count_ones()
    })
}

/// Returns the words of a setting, each once.
fn words_after(text: &str, key: &str) -> BTreeSet<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Returns the entries, without the options that let the guest boot without a disk.
fn fstab(text: &str) -> Vec<Vec<String>> {
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut fields: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            fields[3] = fields[3].replace(",nofail", "");
            // The host-deployer asks for dump(8), which nobody has.
            "0".clone_into(&mut fields[4]);
            fields
        })
        .collect()
}
