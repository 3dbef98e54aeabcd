//! seed: the images of first boots, as read by isoinfo, bsdtar, blkid, cloud-init and diskfs itself.

use std::fs;
use std::path::Path;

use diskfs_fixtures::have;
use serde_json::Value;

use crate::{diskfs_in, diskfs_with};

const USER_DATA: &str = "#cloud-config\npackages: [nginx]\nruncmd:\n  - [echo, hello]\n";
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0hxGYvvJmyyTBhVvpnLhJ1f5Jp5VYMXVIoyDZOA6Zo me";
const NETWORK: &str = "version: 2\nethernets:\n  eth0:\n    dhcp4: true\n";

/// Runs a program of the host, and returns its output.
fn tool(directory: &Path, words: &[&str]) -> String {
    let mut command = diskfs_fixtures::command(words[0]);
    let output = command
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn scene() -> tempfile::TempDir {
    let scene = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("user-data", USER_DATA),
        ("meta-data", "instance-id: i-1\nlocal-hostname: web1\n"),
        ("network", NETWORK),
        (
            "network.json",
            "{\"links\": [], \"networks\": [], \"services\": []}",
        ),
        ("key.pub", KEY),
        (
            "answers.xml",
            "<?xml version=\"1.0\"?>\n<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"/>\n",
        ),
    ] {
        fs::write(scene.path().join(name), text).unwrap();
    }
    scene
}

/// Returns the paths in an image, as bsdtar lists them.
fn listed(at: &Path, image: &str, options: &[&str]) -> Vec<String> {
    let text = tool(at, &[&["bsdtar", "-tf", image], options].concat());
    let mut paths: Vec<String> = text.lines().map(str::to_owned).collect();
    paths.sort();
    paths
}

#[test]
fn a_nocloud_seed_is_read_by_others() {
    if !have(&[
        "isoinfo",
        "bsdtar",
        "blkid",
        "cloud-init",
        "/usr/bin/python3",
    ]) {
        return;
    }
    let scene = scene();
    let at = scene.path();
    let words = [
        "seed",
        "nocloud",
        "--user-data",
        "user-data",
        "--hostname",
        "web1",
        "--ssh-key",
        "key.pub",
        "--network-config",
        "network",
        "--instance-id",
        "i-7",
        "-o",
        "seed.iso",
    ];
    diskfs_in(at, &words).bytes();
    assert_eq!(at.join("seed.iso").metadata().unwrap().len(), 1 << 20);
    let names = ["meta-data", "network-config", "user-data"];
    let blkid = tool(at, &["blkid", "-p", "-o", "export", "seed.iso"]);
    assert!(
        blkid.contains("LABEL=cidata\n") && blkid.contains("TYPE=iso9660"),
        "{blkid}"
    );
    let info = tool(at, &["isoinfo", "-d", "-i", "seed.iso"]);
    for told in [
        "Volume id: cidata",
        "Joliet with UCS level 3 found",
        "Rock Ridge signatures version 1 found",
    ] {
        assert!(info.contains(told), "{told}: {info}");
    }
    let paths = |options: &[&str]| {
        let text = tool(
            at,
            &[&["isoinfo", "-i", "seed.iso", "-f"], options].concat(),
        );
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(paths(&["-R"]), names.map(|name| format!("/{name}")));
    assert_eq!(paths(&["-J"]), names.map(|name| format!("/{name}")));
    assert_eq!(paths(&[]), ["/META_DAT.;1", "/NETWORK_.;1", "/USER_DAT.;1"]);
    let read = |name: &str, option: &str| {
        tool(
            at,
            &[
                "isoinfo",
                "-i",
                "seed.iso",
                option,
                "-x",
                &format!("/{name}"),
            ],
        )
    };
    for option in ["-R", "-J"] {
        assert_eq!(read("user-data", option), USER_DATA);
        assert_eq!(read("network-config", option), NETWORK);
    }
    // libarchive prefers Joliet; each of the trees is read.
    let with_root = [&["."][..], &names].concat();
    for options in [&["--options", "!rockridge"][..], &["--options", "!joliet"]] {
        assert_eq!(listed(at, "seed.iso", options), with_root, "{options:?}");
    }
    let long = tool(at, &["bsdtar", "-tvf", "seed.iso", "--options", "!joliet"]);
    assert!(long.contains("-r--------  1 0      0"), "{long}");

    // Our own reader.
    assert_eq!(
        diskfs_in(at, &["cat", "seed.iso:/user-data"]).text(),
        USER_DATA
    );
    let ls = diskfs_in(at, &["ls", "seed.iso:/"]).text();
    assert_eq!(ls.lines().collect::<Vec<_>>(), names);

    cloud_init_reads_it(at);
}

/// Runs cloud-init's own parser on the files of the image.
fn cloud_init_reads_it(at: &Path) {
    fs::create_dir(at.join("out")).unwrap();
    tool(at, &["bsdtar", "-xf", "seed.iso", "-C", "out"]);
    tool(at, &["cloud-init", "schema", "-c", "out/user-data"]);
    let script = "
import json
from cloudinit import util
from cloudinit.sources import normalize_pubkey_data
from cloudinit.sources.DataSourceNoCloud import _merge_new_seed
names = {'required': ['user-data', 'meta-data'], 'optional': ['vendor-data', 'network-config']}
empty = {'meta-data': {}, 'user-data': '', 'vendor-data': '', 'network-config': None}
found = _merge_new_seed(empty, util.pathprefix2dict('out', **names))
meta = found['meta-data']
print(json.dumps([meta, normalize_pubkey_data(meta['public-keys']), found['network-config'],
    found['user-data'].decode()]))
";
    let read: Value = serde_json::from_str(&tool(at, &["/usr/bin/python3", "-c", script])).unwrap();
    assert_eq!(read[0]["instance-id"], "i-7");
    assert_eq!(read[0]["local-hostname"], "web1");
    assert_eq!(read[1][0], KEY);
    assert_eq!(read[2]["ethernets"]["eth0"]["dhcp4"], true);
    assert_eq!(read[3], USER_DATA);
}

#[test]
fn a_configuration_drive_is_read_by_cloud_init() {
    if !have(&[
        "isoinfo",
        "bsdtar",
        "blkid",
        "cloud-init",
        "/usr/bin/python3",
    ]) {
        return;
    }
    let scene = scene();
    let at = scene.path();
    let words = [
        "seed",
        "configdrive",
        "--user-data",
        "user-data",
        "--hostname",
        "web1",
        "--ssh-key",
        "key.pub",
        "--network-config",
        "network.json",
        "-o",
        "config.iso",
    ];
    diskfs_in(at, &words).bytes();
    let blkid = tool(at, &["blkid", "-p", "-o", "export", "config.iso"]);
    assert!(blkid.contains("LABEL=config-2\n"), "{blkid}");
    let expected = [
        ".",
        "openstack",
        "openstack/latest",
        "openstack/latest/meta_data.json",
        "openstack/latest/network_data.json",
        "openstack/latest/user_data",
    ];
    assert_eq!(
        listed(at, "config.iso", &["--options", "!rockridge"]),
        expected
    );
    assert_eq!(
        listed(at, "config.iso", &["--options", "!joliet"]),
        expected
    );
    let plain = tool(at, &["isoinfo", "-i", "config.iso", "-f"]);
    assert!(
        plain.contains("/OPENSTAC/LATEST/META_DAT.JSO;1\n"),
        "{plain}"
    );
    // The path table has all directories.
    let table = tool(at, &["isoinfo", "-i", "config.iso", "-p"]);
    assert!(
        table.contains("OPENSTAC") && table.contains("LATEST"),
        "{table}"
    );
    fs::create_dir(at.join("out")).unwrap();
    tool(at, &["bsdtar", "-xf", "config.iso", "-C", "out"]);
    let script = "
import json
from cloudinit.sources.DataSourceConfigDrive import read_config_drive
found = read_config_drive('out')
print(json.dumps([found['version'], found['metadata'], found['userdata'].decode(), found['networkdata']]))
";
    let read: Value = serde_json::from_str(&tool(at, &["/usr/bin/python3", "-c", script])).unwrap();
    assert_eq!(read[1]["local-hostname"], "web1");
    assert_eq!(read[1]["instance-id"], read[1]["uuid"]);
    assert_eq!(read[1]["public_keys"]["0"], KEY);
    assert_eq!(read[2], USER_DATA);
    assert!(read[3]["links"].is_array(), "{read}");
    let cat = diskfs_in(at, &["cat", "config.iso:/openstack/latest/user_data"]).text();
    assert_eq!(cat, USER_DATA);
}

#[test]
fn answer_files_of_windows_are_stored_under_their_names() {
    if !have(&["isoinfo", "blkid"]) {
        return;
    }
    let scene = scene();
    let at = scene.path();
    let words = [
        "seed",
        "sysprep",
        "--autounattend",
        "answers.xml",
        "--unattend",
        "answers.xml",
        "-o",
        "a.iso",
    ];
    diskfs_in(at, &words).bytes();
    let blkid = tool(at, &["blkid", "-p", "-o", "export", "a.iso"]);
    assert!(blkid.contains("LABEL=unattendCD\n"), "{blkid}");
    let joliet = tool(at, &["isoinfo", "-i", "a.iso", "-J", "-f"]);
    assert_eq!(joliet, "/autounattend.xml\n/unattend.xml\n");
    for (text, message) in [
        ("<unattend>", "not closed"),
        ("<other/>", "expected the element `unattend`"),
        ("<unattend></other>", "invalid answer file"),
    ] {
        fs::write(at.join("bad.xml"), text).unwrap();
        let (_, stderr) = diskfs_in(
            at,
            &["seed", "sysprep", "--unattend", "bad.xml", "-o", "b.iso"],
        )
        .failure();
        assert!(stderr.contains(message), "{stderr}");
        assert!(!at.join("b.iso").exists());
    }
    let (_, stderr) = diskfs_in(at, &["seed", "sysprep", "-o", "b.iso"]).failure();
    assert!(stderr.contains("missing answer file"), "{stderr}");
}

#[test]
fn the_same_seed_is_the_same_bytes() {
    let scene = scene();
    let at = scene.path();
    let seed = |hostname: &str, time: Option<&str>| {
        let words = [
            "seed",
            "nocloud",
            "--user-data",
            "user-data",
            "--hostname",
            hostname,
            "-o",
            "-",
        ];
        let variables: Vec<_> = time
            .map(|time| ("SOURCE_DATE_EPOCH", time))
            .into_iter()
            .collect();
        diskfs_with(at, &words, &variables).bytes().to_vec()
    };
    let first = seed("web1", None);
    assert_eq!(first.len(), 1 << 20);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(first == seed("web1", None));
    let dated = seed("web1", Some("1700000000"));
    assert!(dated != first && dated == seed("web1", Some("1700000000")));
    assert_eq!(&dated[32768 + 813..][..16], b"2023111422132000");
    // The instance ID depends on the contents, and not on the time.
    let id = |image: &[u8]| {
        fs::write(at.join("x.iso"), image).unwrap();
        let text = diskfs_in(at, &["cat", "x.iso:/meta-data"]).text();
        let meta: Value = serde_json::from_str(&text).unwrap();
        meta["instance-id"].as_str().unwrap().to_owned()
    };
    assert_eq!(id(&first), id(&dated));
    assert_ne!(id(&first), id(&seed("web2", None)));
    assert!(id(&first).starts_with("iid-"), "{}", id(&first));
}

#[test]
fn an_image_is_complete_or_absent() {
    let scene = scene();
    let at = scene.path();
    let seed = |words: &[&str]| {
        diskfs_in(
            at,
            &[&["seed", "nocloud", "-o", "seed.iso"], words].concat(),
        )
    };
    seed(&["--user-data", "user-data"]).bytes();
    let first = fs::read(at.join("seed.iso")).unwrap();
    let (_, stderr) = seed(&["--hostname", "other"]).failure();
    assert!(stderr.contains("--force replaces it"), "{stderr}");
    assert!(fs::read(at.join("seed.iso")).unwrap() == first);
    seed(&["--hostname", "other", "--force"]).bytes();
    assert!(fs::read(at.join("seed.iso")).unwrap() != first);
    fs::remove_file(at.join("seed.iso")).unwrap();
    let pipe = ["seed", "nocloud", "-o", "/dev/null", "--force"];
    let (_, stderr) = diskfs_in(at, &pipe).failure();
    assert!(stderr.contains("not a regular file"), "{stderr}");
    // A file with nothing in it configures nothing.
    fs::write(at.join("nothing"), "#cloud-config\n").unwrap();
    seed(&["--user-data", "nothing", "--force"]).bytes();
    fs::remove_file(at.join("seed.iso")).unwrap();
    let entries = fs::read_dir(at).unwrap().count();
    for (text, option, message) in [
        (
            "#cloud-config\na: [1\npassword: secret1\n",
            "--user-data",
            "invalid user data",
        ),
        (
            "#cloud-config\n- list\n",
            "--user-data",
            "expected a YAML mapping",
        ),
        ("- list\n", "--meta-data", "expected a YAML mapping"),
        (
            "ethernets: {}\n",
            "--network-config",
            "expected `version: 1` or `version: 2`",
        ),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\n",
            "--ssh-key",
            "it is a private key",
        ),
        ("word\n", "--ssh-key", "expected a type and a key"),
        ("\n", "--ssh-key", "the file has no key"),
    ] {
        fs::write(at.join("user-data"), text).unwrap();
        let (_, stderr) = seed(&[option, "user-data"]).failure();
        assert!(stderr.contains(message), "{message}: {stderr}");
        assert!(!stderr.contains("secret1"), "{stderr}");
        assert_eq!(fs::read_dir(at).unwrap().count(), entries);
    }
    let (_, stderr) = seed(&["--user-data", "gone"]).failure();
    assert!(stderr.contains("gone"), "{stderr}");
    // What cloud-init ignores is a warning.
    fs::write(at.join("user-data"), "hello\n").unwrap();
    let run = seed(&["--user-data", "user-data"]);
    assert_eq!(run.code(), Some(0));
    assert!(
        run.stderr()
            .contains("warning: user-data: cloud-init ignores"),
        "{}",
        run.stderr()
    );
    fs::write(at.join("meta-data"), "local-hostname: a\n").unwrap();
    let run = seed(&["--meta-data", "meta-data", "--force"]);
    assert!(
        run.stderr().contains("missing `instance-id`"),
        "{}",
        run.stderr()
    );
}
