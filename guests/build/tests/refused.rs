//! Plans that can't be built: the reason names the key, and no file is left.

mod tools;

use std::fs;
use std::ops::ControlFlow;

use diskfs_build::BuildOptions;
use diskfs_disk::ErrorKind;
use tools::Work;

const ROOT: &str = "filesystem: {type: ext4, mount: /}";

#[track_caller]
fn refused(plan: &str, kind: ErrorKind, words: &[&str]) {
    let work = Work::new();
    fs::create_dir(work.at("tree")).unwrap();
    fs::write(work.at("tree/large"), vec![1; 6 << 20]).unwrap();
    fs::create_dir_all(work.at("links/srv")).unwrap();
    fs::write(work.at("links/file"), "x").unwrap();
    fs::hard_link(work.at("links/file"), work.at("links/srv/file")).unwrap();
    let names = work.names();
    let error = work.build(plan, "disk.img").unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert_eq!(work.names(), names);
}

#[test]
fn sizes() {
    let tree = "sources: [{directory: tree}]";
    refused(
        &format!("partitions: [{{size: 4M, {ROOT}}}]\n{tree}"),
        ErrorKind::NoSpace,
        &["partitions[0]", "4194304"],
    );
    // The files alone fit, and the filesystem finds out that they don't.
    refused(
        &format!("partitions: [{{size: 7M, {ROOT}}}]\n{tree}"),
        ErrorKind::NoSpace,
        &["large", "no space", "larger size"],
    );
    refused(
        &format!("disk: {{size: 8M}}\npartitions: [{{{ROOT}}}]\n{tree}"),
        ErrorKind::NoSpace,
        &["disk.size", "8388608"],
    );
    refused(
        &format!("disk: {{size: 64M}}\npartitions: [{{size: 40M, {ROOT}}}, {{size: 40M}}]"),
        ErrorKind::NoSpace,
        &["disk.size"],
    );
    refused(
        "partitions: [{size: rest}, {size: rest}]",
        ErrorKind::Invalid,
        &["partitions[1].size", "rest"],
    );
    refused(
        "partitions: [{type: linux}]",
        ErrorKind::Invalid,
        &["partitions[0].size"],
    );
    refused(
        "partitions: [{size: 16M, luks: {name: x, key: {in-clear: y}}}]",
        ErrorKind::NoSpace,
        &["partitions[0]", "LUKS2"],
    );
}

#[test]
fn keys_and_values() {
    for (plan, words) in [
        (
            format!("partitions: [{{{ROOT}}}, {{{ROOT}}}]"),
            &["partitions[1].filesystem.mount", "two filesystems"][..],
        ),
        (
            "partitions: [{filesystem: {type: ext4}}]\nsources: [{text: x, to: /x}]".to_owned(),
            &["partitions", "mounted at /"],
        ),
        (
            format!("partitions: [{{{ROOT}, type: unknown}}]"),
            &["partitions[0].type", "unknown"],
        ),
        (
            format!("partitions: [{{{ROOT}, lvm: {{group: a, volumes: []}}}}]"),
            &["partitions[0]", "more than one"],
        ),
        (
            "partitions: [{size: 1M}]\nsources: [{text: x, file: y, to: /x}]".to_owned(),
            &["sources[0]", "exactly one"],
        ),
        (
            "partitions: [{size: 1M}]\nsources: [{text: x}]".to_owned(),
            &["sources[0]", "`to`"],
        ),
        (
            "seed: x\npartitions: [{size: 32M, luks: {name: a, key: {in-clear: b}}}]".to_owned(),
            &["partitions[0].luks", "volume key"],
        ),
        (
            "partitions: [{size: 32M, luks: {name: a}}]".to_owned(),
            &["partitions[0].luks", "--key a:"],
        ),
        (
            "disk: {table: mbr}\npartitions: [{size: 1M}, {size: 1M}, {size: 1M}, {size: 1M}, {size: 1M}]"
                .to_owned(),
            &["partitions", "expected 1 to 4"],
        ),
        (
            format!("bootloader: {{}}\npartitions: [{{{ROOT}}}]"),
            &["bootloader", "type: esp"],
        ),
        (
            "partitions: [{size: 8M, filesystem: {type: ext4, uuid: x}}]".to_owned(),
            &["partitions[0].filesystem.uuid"],
        ),
        ("disk: {sector-size: 520}\npartitions: [{size: 1M}]".to_owned(), &["disk.sector-size"]),
        ("partitions: [{siez: 1M}]".to_owned(), &["siez", "line 1"]),
    ] {
        refused(&plan, ErrorKind::Invalid, words);
    }
}

#[test]
fn files() {
    refused(
        &format!("partitions: [{{{ROOT}}}]\nsources: [{{tar: missing.tar}}]"),
        ErrorKind::NotFound,
        &["sources[0]", "missing.tar"],
    );
    let srv = "filesystem: {type: ext4, mount: /srv}";
    refused(
        &format!("partitions: [{{{ROOT}}}, {{{srv}}}]\nsources: [{{directory: links}}]"),
        ErrorKind::Unsupported,
        &["hard link", "file"],
    );
    let esp = "{type: esp, filesystem: {type: fat, mount: /efi}}";
    refused(
        &format!(
            "bootloader: {{}}\npartitions: [{esp}, {{{ROOT}}}]\nsources: [{{directory: tree}}]"
        ),
        ErrorKind::NotFound,
        &["bootloader", "EFI program"],
    );
    refused(
        "partitions: [{size: 1G, filesystem: {type: xfs}}]",
        ErrorKind::Unsupported,
        &["partitions[0]", "microVM"],
    );
}

#[test]
fn an_existing_file_is_kept_unless_it_may_be_replaced() {
    let work = Work::new();
    fs::write(work.at("disk.img"), "old").unwrap();
    let plan = format!("partitions: [{{{ROOT}}}]");
    let error = work.build(&plan, "disk.img").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
    assert_eq!(fs::read(work.at("disk.img")).unwrap(), b"old");
    let options = BuildOptions {
        existing: diskfs_image::create::Existing::Replace,
        ..BuildOptions::default()
    };
    let prepared = work.prepare(&plan).unwrap();
    let stop = |_| ControlFlow::Break(());
    let error = prepared
        .build(&work.at("disk.img"), &options, &mut { stop })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(work.names(), ["disk.img"]);
    assert_eq!(fs::read(work.at("disk.img")).unwrap(), b"old");
    prepared
        .build(&work.at("disk.img"), &options, &mut tools::go_on)
        .unwrap();
    assert!(fs::metadata(work.at("disk.img")).unwrap().len() > 1 << 20);
}
