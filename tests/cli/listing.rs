//! info, ls, tree, find, stat, cat, df, hash.

use diskfs_fixtures::{Tree, escape, expected_tree, image, require};
use serde_json::json;

use crate::{DISKFS, diskfs, diskfs_in, text_of};

#[test]
fn info_tells_image_partitions_and_filesystems() {
    let demo = image("demo.qcow2");
    let text = diskfs(&demo, &["info", "demo.qcow2"]).text();
    for part in [
        "format:        qcow2",
        "virtual size:  64 MiB (67108864 bytes)",
        "partition table: gpt",
        "BIOS boot",
        "EFI System",
        "demo-root",
        "metadata_csum",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let info = diskfs(&demo, &["info", "--json", "demo.qcow2"]).json();
    assert_eq!(info["image"]["format"], "qcow2");
    assert_eq!(info["image"]["virtual_size_bytes"], 64 << 20);
    assert_eq!(info["image"]["qcow2"]["cluster_size_bytes"], 65536);
    assert_eq!(info["partition_table"]["type"], "gpt");
    let numbers: Vec<_> = info["partition_table"]["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partition| partition["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 14, 15]);
    let filesystems = info["filesystems"].as_array().unwrap();
    assert_eq!(
        filesystems.len(),
        2,
        "the BIOS boot partition has no filesystem"
    );
    assert_eq!(filesystems[0]["type"], "ext4");
    assert_eq!(filesystems[0]["label"], "demo-root");
    assert_eq!(
        filesystems[0]["uuid"],
        "d15cf500-0000-4000-8000-0000000000e4"
    );
    assert!(filesystems[0]["used_bytes"].as_u64().unwrap() > 0);
    assert_eq!(filesystems[1]["type"], "vfat");
    assert_eq!(filesystems[1]["readable"], true);
}

/// Returns the shade of each cell of a disk, from the ranges that `qemu-img map` shows as stored.
fn shades(map: &serde_json::Value, size: u64, depth: u64) -> String {
    const CELLS: u64 = 64;
    let stored = |from: u64, to: u64| -> u64 {
        let ranges = map.as_array().unwrap().iter();
        let ranges = ranges.filter(|range| range["data"] == true && range["depth"] == depth);
        let bytes = ranges.map(|range| {
            let start = range["start"].as_u64().unwrap();
            let end = start + range["length"].as_u64().unwrap();
            end.min(to).saturating_sub(start.max(from))
        });
        bytes.sum()
    };
    let shade = |cell: u64| {
        let (from, to) = (size * cell / CELLS, size * (cell + 1) / CELLS);
        match (stored(from, to), to - from) {
            (0, _) => '·',
            (part, whole) if part == whole => '█',
            (part, whole) if part * 4 < whole => '░',
            (part, whole) if part * 4 < whole * 3 => '▒',
            _ => '▓',
        }
    };
    (0..CELLS).map(shade).collect()
}

#[test]
fn a_map_shows_what_qemu_img_finds_in_each_file() {
    if require("qemu-img").is_none() {
        return;
    }
    let demo = image("demo.qcow2");
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]).current_dir(demo.directory());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        output.stdout
    };
    let overlay = ["-b", "demo.qcow2", "-F", "qcow2", "top.qcow2"];
    run(&[&["qemu-img", "create", "-q", "-f", "qcow2"][..], &overlay].concat());
    run(&["qemu-io", "-c", "write -P 7 30M 3M", "top.qcow2"]);
    let map = run(&["qemu-img", "map", "--output=json", "top.qcow2"]);
    let map = serde_json::from_slice(&map).unwrap();
    let text = diskfs(
        &demo,
        &["info", "--map", "--allow-backing", ".", "top.qcow2"],
    )
    .text();
    let rows: Vec<&str> = text.lines().rev().take(4).collect();
    let [partitions, base, top, ruler] = rows[..] else {
        panic!("{text}");
    };
    assert_eq!(ruler, format!("0{:>63}", "64 MiB"), "{text}");
    assert_eq!(top, format!("{}  top.qcow2", shades(&map, 64 << 20, 0)));
    assert_eq!(base, format!("{}  demo.qcow2", shades(&map, 64 << 20, 1)));
    assert!(partitions.contains("p15─"), "{text}");
    assert!(partitions.contains("─p1─"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn info_tells_snapshots_and_bitmaps() {
    let snapshots = image("qcow2-snapshots.qcow2");
    let info = diskfs(&snapshots, &["info", "--json", "qcow2-snapshots.qcow2"]).json();
    let listed = info["image"]["qcow2"]["snapshots"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    let bitmaps = image("qcow2-bitmaps.qcow2");
    let text = diskfs(&bitmaps, &["info", "qcow2-bitmaps.qcow2"]).text();
    assert!(text.contains("bitmaps:"), "{text}");
}

/// find prints the same metadata of each file as the kernel reported.
#[test]
fn find_prints_what_the_kernel_shows() {
    let expected = expected_tree("ext4-default");
    let image = image("ext4-default");
    let format = "%P\\0%y\\0%m\\0%U\\0%G\\0%s\\0%n\\0%i\\0%T@\\0%A@\\0%C@\\0%l\\0";
    let run = diskfs(&image, &["find", "ext4-default", "-printf", format]);
    let fields: Vec<&[u8]> = run.bytes().split(|byte| *byte == 0).collect();
    let mut seen = 0;
    for field in fields.chunks_exact(12) {
        let path = escape(field[0]);
        let entry = expected
            .entry(&path)
            .unwrap_or_else(|| panic!("/{path} is not expected"));
        let text = |n: usize| std::str::from_utf8(field[n]).unwrap();
        let kind = if entry.kind == '-' { 'f' } else { entry.kind };
        assert_eq!(text(1), kind.to_string(), "{path}");
        let mode = |octal: &str| u32::from_str_radix(octal, 8).unwrap();
        assert_eq!(mode(text(2)), mode(&entry.mode), "{path}");
        assert_eq!(
            (text(3), text(4)),
            (&*entry.uid.to_string(), &*entry.gid.to_string())
        );
        assert_eq!(text(5), entry.size.to_string(), "{path}");
        assert_eq!(text(6), entry.links.to_string(), "{path}");
        assert_eq!(text(7), entry.inode.to_string(), "{path}");
        assert_eq!(text(8), find_time(&entry.mtime), "{path}");
        assert_eq!(text(9), find_time(&entry.atime), "{path}");
        assert_eq!(text(10), find_time(&entry.ctime), "{path}");
        assert_eq!(
            escape(field[11]),
            entry.target.clone().unwrap_or_default(),
            "{path}"
        );
        seen += 1;
    }
    assert_eq!(seen, expected.entries.len());
}

/// Returns a time of the recorded trees (seconds, then nanoseconds) as one number, which find
/// prints with ten digits.
fn find_time(recorded: &str) -> String {
    let (seconds, nanoseconds) = recorded.split_once('.').unwrap();
    let whole: i128 = seconds.parse::<i128>().unwrap() * 1_000_000_000;
    let time = whole + nanoseconds.parse::<i128>().unwrap();
    let sign = if time < 0 { "-" } else { "" };
    let (seconds, rest) = (time.abs() / 1_000_000_000, time.abs() % 1_000_000_000);
    format!("{sign}{seconds}.{rest:09}0")
}

#[test]
fn find_takes_expressions() {
    let image = image("ext4-default");
    let find = |words: &[&str]| {
        let run = diskfs(&image, &[&["find", "ext4-default:/"], words].concat());
        let mut lines: Vec<String> = run.text().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        find(&["-name", "size-409[67]"]),
        ["/size-4096", "/size-4097"]
    );
    assert_eq!(find(&["--iname", "SIZE-1"]), ["/size-1"]);
    assert_eq!(find(&["-type", "p,s"]), ["/fifo", "/socket"]);
    assert_eq!(
        find(&["-perm", "-4000", "-o", "-perm", "-2000"]),
        ["/mode-2755", "/mode-4755"]
    );
    assert_eq!(
        find(&["-size", "+195k", "!", "-type", "d"]),
        ["/sparse-middle"]
    );
    assert_eq!(find(&["-uid", "70000"]), ["/owner-70000-80000"]);
    assert_eq!(
        find(&["-path", "/hardlinks*", "-links", "3"]),
        ["/hardlinks/2", "/hardlinks/3"]
    );
    assert_eq!(
        find(&["-maxdepth", "1", "-type", "d", "-name", "d*"]),
        ["/directory", "/directory-empty"]
    );
    assert_eq!(
        find(&["-name", "directory", "-prune", "-o", "-name", "file"]),
        ["/directory"]
    );
    assert_eq!(
        find(&["-empty", "-type", "d", "-name", "directory*"]),
        ["/directory-empty"]
    );
    let zero = diskfs(
        &image,
        &["find", "ext4-default:/names", "-name", "new*", "-print0"],
    );
    assert_eq!(zero.bytes(), b"/names/new\nline\0");
    let list = diskfs(
        &image,
        &["find", "--json", "ext4-default", "-name", "size-1"],
    )
    .json();
    assert_eq!(list["entries"].as_array().unwrap().len(), 1);
    assert_eq!(list["entries"][0]["path"], "/size-1");
    // An option that is not a test of find can also be between the image and the tests.
    let list = diskfs(
        &image,
        &["find", "ext4-default", "--json", "-path", "/size-1"],
    )
    .json();
    assert_eq!(list["entries"][0]["path"], "/size-1");
}

/// `-xattr` finds exactly the files on which the kernel showed an attribute with such a name.
#[test]
fn find_knows_attributes_and_long_names() {
    let image = image("ext4-xattr");
    let find = |words: &[&str]| {
        let run = diskfs(&image, &[&["find", "ext4-xattr"], words].concat());
        let bytes = run.bytes().strip_suffix(b"\0").unwrap_or_default();
        let mut paths: Vec<String> = bytes.split(|byte| *byte == 0).map(escape).collect();
        paths.sort();
        paths
    };
    let expected = expected_tree("ext4-xattr");
    for prefix in ["user.", "security.", "trusted."] {
        let has = |name: &String| name.starts_with(prefix);
        let with = expected.entries.iter().filter(|e| e.xattrs.keys().any(has));
        let mut with: Vec<String> = with.map(|entry| entry.path.clone()).collect();
        with.sort();
        assert!(!with.is_empty(), "{prefix}: the fixture has none");
        let pattern = format!("{prefix}*");
        assert_eq!(
            find(&["-xattr", &pattern, "-printf", "%P\\0"]),
            with,
            "{prefix}"
        );
    }
    for (long, short) in [
        ("--mode", "-perm"),
        ("--owner", "-user"),
        ("--size", "-size"),
    ] {
        let word = if long == "--size" { "+1" } else { "0" };
        let word = if long == "--mode" { "-400" } else { word };
        let found = find(&[short, word, "-print0"]);
        assert!(!found.is_empty());
        assert_eq!(find(&[long, word, "--print0"]), found);
    }
}

#[test]
fn ls_lists_in_order_and_long() {
    let demo = image("demo.qcow2");
    let names = diskfs(&demo, &["ls", "demo.qcow2"]).text();
    assert!(names.starts_with("bin\nboot\ndev\netc\n"), "{names}");
    let long = diskfs(&demo, &["ls", "-la", "demo.qcow2:/etc"]).text();
    assert!(long.starts_with("total "), "{long}");
    let shadow = long.lines().find(|line| line.ends_with(" shadow")).unwrap();
    assert_eq!(
        shadow,
        "-rw-r-----  1 root shadow   52 2026-01-02 02:04 shadow"
    );
    let numeric = diskfs(&demo, &["ls", "-ln", "demo.qcow2:/etc/shadow"]).text();
    assert_eq!(
        numeric,
        "-rw-r----- 1 0 42 52 2026-01-02 02:04 /etc/shadow\n"
    );
    let link = diskfs(&demo, &["ls", "-l", "demo.qcow2:/bin"]).text();
    assert!(link.ends_with(" /bin -> usr/bin\n"), "{link}");
    let recursive = diskfs(&demo, &["ls", "-R", "demo.qcow2:/etc/network"]).text();
    assert_eq!(recursive, "demo.qcow2:/etc/network:\ninterfaces\n");
    let json = diskfs(&demo, &["ls", "-R", "--json", "demo.qcow2:/etc"]).json();
    let paths: Vec<_> = json["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| text_of(&entry["path"]))
        .collect();
    assert!(paths.contains(&"/etc/network/interfaces"), "{paths:?}");
}

#[test]
fn tree_draws_and_counts() {
    let demo = image("demo.qcow2");
    let tree = diskfs(&demo, &["tree", "demo.qcow2:/etc/systemd"]).text();
    let expected = "demo.qcow2:/etc/systemd
\u{2514}\u{2500}\u{2500} system
    \u{2514}\u{2500}\u{2500} multi-user.target.wants
        \u{2514}\u{2500}\u{2500} ssh.service -> /usr/lib/systemd/system/ssh.service

2 directories, 1 file
";
    assert_eq!(tree, expected);
    let directories = diskfs(&demo, &["tree", "-d", "-L", "1", "demo.qcow2:/etc"]).text();
    assert!(
        directories.ends_with("systemd\n\n2 directories\n"),
        "{directories}"
    );
}

#[test]
fn cat_prints_files_in_order() {
    let demo = image("demo.qcow2");
    let release = diskfs(&demo, &["cat", "demo.qcow2:/etc/os-release"]).text();
    assert!(release.contains("ID=demo\n"), "{release}");
    let both = diskfs(&demo, &["cat", "demo.qcow2:/etc/hostname", "/etc/timezone"]).text();
    assert_eq!(both, "demo\nEtc/UTC\n");
    let bare = diskfs(&demo, &["cat", "demo.qcow2", "/etc/hostname"]).text();
    assert_eq!(bare, "demo\n");
    diskfs(&demo, &["cat", "-o", "out", "demo.qcow2:/etc/hostname"]).bytes();
    assert_eq!(
        std::fs::read(demo.directory().join("out")).unwrap(),
        b"demo\n"
    );
}

#[test]
fn stat_tells_all() {
    let image = image("ext4-default");
    let text = diskfs(&image, &["stat", "ext4-default:/block-259-70000-new-form"]).text();
    assert!(text.contains("Device type: 259,70000"), "{text}");
    assert!(text.contains("Access: (0640/brw-r-----)"), "{text}");
    let json = diskfs(&image, &["stat", "--json", "ext4-default:/xattr-small"]).json();
    let entry = &json["entries"][0];
    assert_eq!(entry["type"], "file");
    assert_eq!(entry["size_bytes"], 5);
    assert!(!entry["xattrs"].as_array().unwrap().is_empty());
    let link = diskfs(
        &image,
        &["stat", "--json", "ext4-default:/symlink-to-directory"],
    )
    .json();
    assert_eq!(link["entries"][0]["target"], "directory/below");
    let followed = diskfs(
        &image,
        &["stat", "-L", "--json", "ext4-default:/symlink-to-directory"],
    );
    assert_eq!(followed.json()["entries"][0]["type"], "directory");
}

#[test]
fn df_tells_what_statfs_tells() {
    let Some(statfs) = expected_tree("ext4-default").statfs else {
        panic!("the recorded tree has statfs");
    };
    let image = image("ext4-default");
    let json = diskfs(&image, &["df", "--json", "ext4-default"]).json();
    let row = &json["filesystems"][0];
    assert_eq!(row["volume"], "disk");
    assert_eq!(row["size_bytes"], json!(statfs.blocks * statfs.block_size));
    assert_eq!(
        row["available_bytes"],
        json!(statfs.blocks_available * statfs.block_size)
    );
    assert_eq!(row["inodes_free"], json!(statfs.inodes_free));
    let text = diskfs(&image, &["df", "-i", "ext4-default"]).text();
    assert!(text.contains(&statfs.inodes.to_string()), "{text}");
}

#[test]
fn df_draws_gauges_for_terminals_only() {
    let image = image("ext4-default");
    let plain = diskfs(&image, &["df", "ext4-default"]).text();
    assert!(!plain.contains('\u{2595}'), "{plain}");
    if require("script").is_none() {
        return;
    }
    let output = std::process::Command::new("script")
        .args(["-qec", &format!("{DISKFS} df ext4-default"), "/dev/null"])
        .current_dir(image.directory())
        .output()
        .unwrap();
    let drawn = String::from_utf8(output.stdout).unwrap();
    let row = drawn.lines().nth(1).unwrap();
    let mut words = plain.lines().nth(1).unwrap().split_whitespace();
    let percent = words.find(|word| word.ends_with('%')).unwrap();
    let (before, gauge) = row.split_once('\u{2595}').unwrap();
    assert!(before.trim_end().ends_with(percent), "{row}");
    assert_eq!(gauge.chars().nth(10), Some('\u{258f}'), "{row}");
}

#[test]
fn hash_is_the_same_every_time_and_of_the_contents() {
    let image = image("ext4-default");
    let lines = diskfs(&image, &["hash", "ext4-default"]).text();
    for threads in ["1", "5"] {
        let again = diskfs(&image, &["hash", "--threads", threads, "ext4-default"]).text();
        assert_eq!(lines, again, "{threads} threads");
    }
    let contents = diskfs(&image, &["cat", "ext4-default:/size-100000"]);
    let sha256 = diskfs_fixtures::sha256_hex(contents.bytes());
    let line = lines
        .lines()
        .find(|line| line.ends_with("\t/size-100000"))
        .unwrap();
    assert!(
        line.starts_with(&format!("{sha256}\tf\t0644\t0\t0\t100000\t")),
        "{line}"
    );
    assert!(
        lines.contains("\t/names/new\\nline\n"),
        "names stay on their line"
    );
    assert!(lines.contains("\t/names/not-utf8-\\377\\376\n"));
    let json = diskfs(&image, &["hash", "--json", "ext4-default"]).json();
    let entries = json["entries"].as_array().unwrap();
    assert_eq!(entries.len(), lines.lines().count());
    assert_eq!(
        entries.len(),
        expected_count(&expected_tree("ext4-default"))
    );
}

fn expected_count(tree: &Tree) -> usize {
    tree.entries.len()
}

#[test]
fn names_that_are_no_text_keep_their_bytes_in_json() {
    let image = image("ext4-default");
    let json = diskfs(&image, &["ls", "--json", "ext4-default:/names"]).json();
    let entries = json["entries"].as_array().unwrap();
    let odd: Vec<_> = entries
        .iter()
        .filter(|entry| entry.get("name_base64").is_some())
        .collect();
    assert_eq!(odd.len(), 1);
    assert_eq!(odd[0]["name"], "not-utf8-\u{fffd}\u{fffd}");
    assert_eq!(odd[0]["name_base64"], "bm90LXV0Zjgt//4=");
}

#[test]
fn names_can_not_control_a_terminal() {
    if diskfs_fixtures::require("script").is_none() {
        return;
    }
    let image = image("ext4-default");
    // script(1) gives its command a terminal.
    for (command, shown) in [
        ("ls", "$'new\\nline'"),
        ("find", "/names/new\\nline"),
        ("tree", "new\\nline"),
    ] {
        let command = format!("{} {command} ext4-default:/names", crate::DISKFS);
        let output = std::process::Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .current_dir(image.directory())
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).expect("the output is text");
        assert!(text.contains(shown), "{command}: {text}");
        assert!(!text.contains("new\nline") && !text.contains("new\r\nline"));
    }
}

#[test]
fn find_matches_regular_expressions_as_find_does() {
    if require("mke2fs").and(require("find")).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    // All names of up to three of these letters, at two depths.
    let letters = ["a", "B", "1", "+", ".", "(", "\n", "\u{e9}"];
    let mut names: Vec<String> = letters.map(str::to_owned).to_vec();
    for length in 1..3 {
        let longer = names.iter().filter(|name| name.chars().count() == length);
        let longer = longer.flat_map(|name| letters.map(|letter| format!("{name}{letter}")));
        names.extend(longer.collect::<Vec<_>>());
    }
    std::fs::create_dir_all(tree.join("dir/a+b")).unwrap();
    for name in names.iter().filter(|name| *name != "." && *name != "..") {
        std::fs::write(tree.join("dir").join(name), "").unwrap();
    }
    std::fs::write(tree.join("dir/a+b/a.gz"), "").unwrap();
    let made = diskfs_fixtures::command("mke2fs")
        .args(["-q", "-t", "ext4", "-d", "tree", "disk.img", "16M"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for expression in [
        &["-regex", r".*/a+"][..],
        &["-regex", r".*/a\+"],
        &["-iregex", r".*/[ab].1"],
        &["-regex", r".*/\(a\|1\)*"],
        &["-regex", r".*dir.*[^a-z]"],
        &["-regex", "a"],
        &["-not", "-regex", r".*/...?"],
        &["-regextype", "posix-extended", "-regex", r".*/(a|B){2}"],
        &[
            "-regextype",
            "posix-extended",
            "-iregex",
            r".*/[[:alpha:]]\.?",
        ],
        &["-regextype", "posix-basic", "-regex", r".*/a\{2,3\}"],
        &["-regextype", "findutils-default", "-regex", ".*/a.B"],
        &["-regex", r".*/a+b/.*\.gz"],
    ] {
        let all = [&["-mindepth", "1"], expression, &["-print0"]].concat();
        let words = [&["find", "disk.img:/dir"], &all[..]].concat();
        let ours = diskfs_in(directory.path(), &words);
        let theirs = std::process::Command::new("find")
            .arg("dir")
            .args(&all)
            .current_dir(&tree)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let sorted = |output: &[u8], root: &[u8]| -> Vec<Vec<u8>> {
            let paths = output
                .split(|byte| *byte == 0)
                .filter(|path| !path.is_empty());
            let mut paths: Vec<_> = paths.map(|path| [root, path].concat()).collect();
            paths.sort();
            paths
        };
        let theirs = sorted(&theirs.stdout, b"/");
        assert_eq!(sorted(ours.bytes(), b""), theirs, "{expression:?}");
    }
}

#[test]
fn df_takes_directories_and_lists() {
    let demo = image("demo.qcow2");
    let below = demo.directory().join("below");
    std::fs::create_dir(&below).unwrap();
    std::fs::copy(demo.path(), below.join("second.qcow2")).unwrap();
    std::fs::write(demo.directory().join("notes"), [b'x'; 4096]).unwrap();
    let images = |words: &[&str]| {
        let json = diskfs(&demo, &[&["df", "--json"], words].concat()).json();
        let filesystems = json["filesystems"].as_array().unwrap().clone();
        let name = |row: &serde_json::Value| text_of(&row["image"]).to_owned();
        let mut names: Vec<String> = filesystems.iter().map(name).collect();
        names.dedup();
        names
    };
    assert_eq!(images(&["."]), ["./below/second.qcow2", "./demo.qcow2"]);
    assert_eq!(
        images(&["demo.qcow2", "below"]),
        ["demo.qcow2", "below/second.qcow2"]
    );
    std::fs::write(demo.directory().join("list"), "demo.qcow2\n\n").unwrap();
    assert_eq!(images(&["--fleet", "list"]), ["demo.qcow2"]);
    assert_eq!(images(&["--fleet", "below"]), ["below/second.qcow2"]);
}
