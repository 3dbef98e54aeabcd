//! Encrypted images: keys by `--object secret`, LUKS volumes, and qcow2 images with LUKS.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use diskfs_fixtures::require;

use super::{Caller, difference};
use crate::DISKFS;

/// Options, in which `S` stands for the secret `s`, `Q` for the qcow2 image with that key, `L` for the
/// LUKS volume, and `O` for `--image-opts`. The first word is as in `vectors.txt`.
const CALLS: &str = "\
json info --output=json e.qcow2
text info e.qcow2
json info --output=json l.luks
text info l.luks
json info --output=json -f luks l.luks
json info --output=json -f raw l.luks
json info --output=json cbc.luks
text info S e.qcow2
json info --output=json O driver=qcow2,file.filename=e.qcow2
json info --output=json --backing-chain over.qcow2
code info -f luks e.qcow2
code info -f luks seed.raw
code info --object secret,id=s e.qcow2
code info --object secret,data=x e.qcow2
code info --object secret,id=s,data=x,file=pass e.qcow2
code info --object secret,id=s,file=missing e.qcow2
code info --object secret,id=s,data=x,format=hex e.qcow2
code info --object secret,id=s,data=x,more=1 e.qcow2
code info --object secret,id=s,data=*,format=base64 e.qcow2
code info --object secret,id=s,data=x,keyid=k e.qcow2
code info --object nothing,id=s e.qcow2
code info S S e.qcow2
json info --output=json --object {\"qom-type\":\"secret\",\"id\":\"s\",\"data\":\"x\"} e.qcow2
code convert -O raw e.qcow2 no.raw
code convert S -O raw e.qcow2 no.raw
code convert -O raw l.luks no.raw
code convert -f luks -O raw l.luks no.raw
code convert -O raw over.qcow2 no.raw
code convert O -O raw Q no.raw
code convert --object secret,id=other,data=hunter2 O -O raw Q no.raw
code convert --object secret,id=s,data=wrong O -O raw Q no.raw
code convert --object secret,id=s,data=wrong O -O raw L no.raw
code convert S O -O raw Q,encrypt.format=aes no.raw
code convert S O -O raw driver=luks,key-secret=s,file.filename=seed.raw no.raw
code convert S O -O raw driver=luks,encrypt.key-secret=s,file.filename=l.luks no.raw
code convert S O -O raw driver=raw,key-secret=s,file.filename=l.luks no.raw
text convert S O -O raw Q q1.raw
text compare q1.raw plain.raw
text convert S O -O qcow2 Q,encrypt.format=luks q2.qcow2
text compare q2.qcow2 plain.raw
text convert --object secret,id=s,file=pass O -O raw Q q3.raw
text compare q3.raw plain.raw
text convert --object secret,id=s,format=base64,file=pass64 O -O raw Q q4.raw
text compare q4.raw plain.raw
text convert --object secret,id=s,format=base64,data=aHVudGVyMg== -O raw J q5.raw
text compare q5.raw plain.raw
text convert S O -O raw L l1.raw
text compare l1.raw plain.raw
text convert S O -c -O qcow2 L l2.qcow2
text compare l2.qcow2 plain.raw
text convert S O -O raw C l3.raw
text compare l3.raw plain.raw
text compare S O Q L
text compare S O Q driver=raw,file.filename=plain.raw
text compare S O L driver=raw,file.filename=seed.raw
code compare O Q L
json map --output=json S O L
code map S O L
code map S O Q
code map e.qcow2
json measure --output=json S -O qcow2 O Q
json measure --output=json S -O raw O L
code measure -O raw e.qcow2
json measure --output=json S -O luks -o key-secret=s --size 4M
json measure --output=json S -O luks -o key-secret=s,cipher-alg=aes-128,cipher-mode=cbc,preallocation=full plain.raw
text measure S -O luks -o key-secret=s plain.raw
json measure --output=json S O -O luks -o key-secret=s Q
code measure -O luks --size 4M
code measure -O luks -o key-secret=s --size 4M
code measure S -O luks -o key-secret=s,foo=1 --size 4M
json measure --output=json S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s --size 1G
json measure --output=json S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.cipher-alg=twofish-128,encrypt.cipher-mode=cbc,cluster_size=4k --size 1G
json measure --output=json S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,preallocation=full plain.raw
json measure --output=json S O -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s L
code measure -O qcow2 -o encrypt.format=luks --size 4M
code measure S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=t --size 4M
json measure --output=json S -O qcow2 -o encrypt.key-secret=s --size 4M
json measure --output=json S -O qcow2 -o encrypt.key-secret=t --size 4M
json measure --output=json S -O qcow2 -o encrypt.format=aes,encrypt.key-secret=s --size 4M
json measure --output=json S -O qcow2 -o encrypt.cipher-alg=aes-128 --size 4M
code measure S -O qcow2 -o encrypt.iter-time=x --size 4M
code measure S -O qcow2 -o encrypt.foo=1 --size 4M
json check --output=json S O Q
code check l.luks
text dd S O if=Q of=d.raw bs=64k
text compare d.raw plain.raw
text create S -f luks -o key-secret=s,iter-time=10 new.luks 4M
text create S -f luks -o iter-time=10,key-secret=s,cipher-alg=aes-128,cipher-mode=cbc,ivgen-alg=essiv,ivgen-hash-alg=sha256,hash-alg=sha1 newcbc.luks 4M
text create S -f luks -o key-secret=s,iter-time=10,preallocation=metadata meta.luks 4M
text create S -f luks -o key-secret=s,iter-time=10 small.luks 1000
text create S -f qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 small.qcow2 1000
text create S -f qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10,encrypt.cipher-alg=serpent-256 new.qcow2 4M
text create S -f qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10,preallocation=metadata full.qcow2 4M
code create -f luks -o key-secret=s no.luks 4M
code create -f luks no.luks 4M
code create S -f luks -o key-secret=t no.luks 4M
code create S -f luks -o key-secret=s,cipher-alg=foo no.luks 4M
code create S -f luks -o key-secret=s,foo=1 no.luks 4M
code create S -f luks -o key-secret=s -b e.qcow2 -F qcow2 no.luks 4M
code create S -f qcow2 -o encrypt.key-secret=s no.qcow2 4M
code create S -f qcow2 -o encrypt.format=luks no.qcow2 4M
code create S -f qcow2 -o encrypt.format=foo,encrypt.key-secret=s no.qcow2 4M
code create S -f raw -o encrypt.format=luks no.luks 4M
text convert S -f raw -O luks -o key-secret=s,iter-time=10 plain.raw made.luks
text convert S O -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 L made.qcow2
code convert S -c -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s plain.raw no.qcow2
code convert S -O luks plain.raw no.luks
code convert --target-image-opts plain.raw driver=raw,file.filename=no.raw
code convert -n S -o key-secret=s -O luks plain.raw l.luks
code convert -n -O luks plain.raw new.luks
code convert -n --target-image-opts plain.raw driver=luks,file.filename=new.luks
code convert -n S --target-image-opts plain.raw driver=luks,key-secret=t,file.filename=new.luks
code convert -n --target-image-opts plain.raw driver=qcow2,file.filename=new.qcow2
text convert -n S -f raw --target-image-opts plain.raw driver=luks,key-secret=s,file.filename=new.luks
text convert -n S -f raw --target-image-opts plain.raw driver=luks,key-secret=s,file.filename=newcbc.luks
text convert -n S -f raw --target-image-opts plain.raw driver=qcow2,encrypt.key-secret=s,file.filename=new.qcow2
text convert -n S -f raw --target-image-opts plain.raw driver=qcow2,encrypt.key-secret=s,file.filename=full.qcow2
text convert S O -O raw driver=qcow2,file.filename=over.qcow2,backing.encrypt.key-secret=s over.raw
text compare over.raw plain.raw
text convert -f raw -O qcow2 plain.raw base.qcow2
text convert -f raw -O qcow2 -B base.qcow2 -F qcow2 seed.raw top.qcow2
text create -f qcow2 -b base.qcow2 -F qcow2 empty.qcow2
text convert S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 -B base.qcow2 -F qcow2 top.qcow2 child.qcow2
text compare S O driver=qcow2,encrypt.key-secret=s,file.filename=child.qcow2 driver=raw,file.filename=seed.raw
text convert S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 -B base.qcow2 -F qcow2 empty.qcow2 none.qcow2
text compare S O driver=qcow2,encrypt.key-secret=s,file.filename=none.qcow2 driver=raw,file.filename=plain.raw
code convert S -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,preallocation=full -B base.qcow2 -F qcow2 top.qcow2 no.qcow2
code convert S O -O raw driver=qcow2,file.filename=over.qcow2,backing.encrypt.key-secret=t no.raw
code convert S O -O raw driver=qcow2,file.filename=over.qcow2,backing.backing.encrypt.key-secret=s no.raw
code convert --object secret,id=s,data=wrong O -O raw driver=qcow2,file.filename=over.qcow2,backing.encrypt.key-secret=s no.raw
text compare S O driver=qcow2,file.filename=over.qcow2,backing.encrypt.key-secret=s L
text info odd.luks
json info --output=json odd.luks
json map --output=json S O D
json measure --output=json S O -O raw D
text convert S O -O raw D odd1.raw
text convert S O -O qcow2 D odd.qcow2
text compare -f qcow2 -F raw odd.qcow2 odd1.raw
text compare S O D driver=raw,file.filename=odd1.raw
text dd S O if=D of=odd2.raw bs=777 count=3
text convert S -f raw -O luks -o key-secret=s,iter-time=10 short.raw short.luks
text convert S -f raw -O qcow2 -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 short.raw short.qcow2
text compare S O driver=luks,key-secret=s,file.filename=short.luks driver=raw,file.filename=short.raw
text compare S O driver=qcow2,encrypt.key-secret=s,file.filename=short.qcow2 driver=raw,file.filename=short.raw
text compare -f raw -F raw short.raw long.raw
code compare -s -f raw -F raw short.raw long.raw
text compare -f raw -F raw short.raw plain.raw
text resize S O D 8M
json info --output=json odd.luks
code resize S O D 1M
code resize O driver=luks,file.filename=odd.luks 16M
code resize S O D -9M
code resize S O --preallocation=metadata D 9M
text resize S O --preallocation=full D +1M
text resize S O --shrink D 1000000
json info --output=json odd.luks
code resize S O driver=qcow2,encrypt.key-secret=s,file.filename=new.qcow2 8000001
";

/// Changes of keys: options as for `CALLS`, after the words `amend S N O`, where `N` stands for the
/// secret `n`. The options of `-o` get their prefix for the qcow2 image.
const AMENDS: &str = "\
text state=active,new-secret=n,iter-time=10
text state=active,new-secret=n,iter-time=10,keyslot=6
code state=active,new-secret=n,iter-time=10,keyslot=6
code state=active
code state=active,new-secret=missing
code state=active,new-secret=n,old-secret=s
code state=active,new-secret=n,keyslot=8
code state=active,new-secret=n,keyslot=-1
code state=active,new-secret=n,iter-time=x
code new-secret=n
code state=on,new-secret=n
code cipher-alg=aes-128
code state=inactive
code state=inactive,new-secret=n,keyslot=0
code state=inactive,iter-time=10,keyslot=0
code state=inactive,keyslot=3
code state=inactive,keyslot=9
code state=inactive,old-secret=n,keyslot=0
code state=inactive,old-secret=missing
text state=inactive,old-secret=n,keyslot=6
text state=active,new-secret=n,iter-time=10,keyslot=7
text state=inactive,old-secret=n
code state=inactive,old-secret=n
code state=inactive,old-secret=s
code state=inactive,keyslot=0
text state=active,new-secret=n,iter-time=10,keyslot=1
text --force state=active,new-secret=n,iter-time=10,keyslot=1
";

/// Changes of keys of an image whose key slots 0 and 1 are in use.
const AMENDS_OF_FULL: &str = "\
text state=active,new-secret=n,iter-time=10
text state=active,new-secret=n,iter-time=10
text state=active,new-secret=n,iter-time=10
text state=active,new-secret=n,iter-time=10
text state=active,new-secret=n,iter-time=10
text state=active,new-secret=n,iter-time=10
code state=active,new-secret=n,iter-time=10
text --force state=active,new-secret=n,iter-time=10,keyslot=3
text --force state=inactive,keyslot=3
text --force state=inactive,keyslot=3
";

/// Other calls of `amend`.
const OTHER_AMENDS: &str = "\
code amend N -o encrypt.state=active,encrypt.new-secret=n e.qcow2
code amend N O -o encrypt.state=active,encrypt.new-secret=n driver=qcow2,file.filename=e.qcow2
code amend N O -o state=active,new-secret=n driver=luks,file.filename=l.luks
code amend N -f luks -o state=active,new-secret=n l.luks
code amend N -f raw -o state=active,new-secret=n l.luks
code amend N O -o encrypt.state=active,encrypt.new-secret=n Q
code amend N --object secret,id=s,data=wrong O -o encrypt.state=active,encrypt.new-secret=n Q
code amend S N O -o encrypt.state=active,encrypt.new-secret=n driver=qcow2,encrypt.key-secret=s,file.filename=p.qcow2
code amend S N O -o state=active,new-secret=n driver=luks,key-secret=s,file.filename=plain.raw
code amend S N O -o state=active,new-secret=n Q
code amend S N O -o encrypt.format=luks Q
";

/// Changes of the keys of the qcow2 image together with other properties, with options as in
/// `AMENDS`. Those that fail change nothing.
const AMENDS_WITH_OTHERS: &str = "\
text lazy_refcounts=on,K
text compat=0.10,lazy_refcounts=off,K
text compat=1.1,refcount_bits=64,K
code lazy_refcounts=off,encrypt.state=active
code refcount_bits=16,encrypt.state=active,encrypt.new-secret=missing
code refcount_bits=16,encrypt.state=active,encrypt.new-secret=n,encrypt.keyslot=9
code refcount_bits=16,encrypt.state=active,encrypt.new-secret=n,encrypt.keyslot=0
code foo=1,K
code cluster_size=4k,K
code refcount_bits=3,K
code encrypt.format=luks,K
code compat=0.10,lazy_refcounts=on,K
code backing_file=x,K
";

/// Images that the calls made, each with the contents of `plain.raw`.
const MADE: [&str; 7] = [
    "driver=luks,key-secret=s,file.filename=made.luks",
    "driver=qcow2,encrypt.key-secret=s,file.filename=made.qcow2",
    "driver=luks,key-secret=s,file.filename=new.luks",
    "driver=luks,key-secret=s,file.filename=newcbc.luks",
    "driver=qcow2,encrypt.key-secret=s,file.filename=new.qcow2",
    "driver=qcow2,encrypt.key-secret=s,file.filename=full.qcow2",
    "driver=qcow2,encrypt.key-secret=s,file.filename=none.qcow2",
];

/// Makes the images once, so that both programs see the same keys and identifiers.
fn make_images(dir: &Path) {
    let secret = "secret,id=s,data=hunter2";
    let theirs = Caller::new("qemu-img".into(), dir);
    let plain = "convert -n --object secret,id=s,data=hunter2 --target-image-opts -f raw plain.raw";
    let qcow2 = "driver=qcow2,encrypt.key-secret=s,file.filename=e.qcow2";
    let copy = |target: &str| {
        let words: Vec<&str> = plain.split(' ').chain([target]).collect();
        let done = theirs.call(&words);
        assert!(done.status.success(), "{done:?}");
    };
    let create = |format: &str, options: &str, name: &str| {
        let words = [
            "create", "--object", secret, "-f", format, "-o", options, name, "4M",
        ];
        let done = theirs.call(&words);
        assert!(done.status.success(), "{done:?}");
    };
    let data = &fs::read(dir.join("seed.raw")).unwrap()[..4 << 20];
    fs::write(dir.join("plain.raw"), data).unwrap();
    fs::write(dir.join("pass"), "hunter2").unwrap();
    fs::write(dir.join("pass64"), "aHVu\ndGVyMg==\n").unwrap();
    let encrypt = "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10";
    create("qcow2", encrypt, "e.qcow2");
    copy(qcow2);
    create("luks", "key-secret=s,iter-time=10", "l.luks");
    copy("driver=luks,key-secret=s,file.filename=l.luks");
    let options = "key-secret=s,iter-time=10,cipher-alg=aes-128,cipher-mode=cbc,ivgen-alg=essiv,\
                   ivgen-hash-alg=sha256,hash-alg=sha1";
    create("luks", options, "cbc.luks");
    copy("driver=luks,key-secret=s,file.filename=cbc.luks");
    let volume = fs::read(dir.join("l.luks")).unwrap();
    fs::write(dir.join("odd.luks"), &volume[..volume.len() - 100]).unwrap();
    fs::write(dir.join("short.raw"), &data[..1000]).unwrap();
    fs::write(dir.join("long.raw"), [&data[..1000], &[0; 24]].concat()).unwrap();
    let over = [
        "create",
        "-u",
        "-f",
        "qcow2",
        "-b",
        "e.qcow2",
        "-F",
        "qcow2",
        "over.qcow2",
        "4M",
    ];
    assert!(theirs.call(&over).status.success());
}

/// Returns a word of a call, or those that it stands for.
fn expand(word: &str) -> Vec<String> {
    let qcow2 = "driver=qcow2,encrypt.key-secret=s,file.filename=e.qcow2";
    let json = "json:{\"driver\":\"qcow2\",\"encrypt\":{\"key-secret\":\"s\"},\
                \"file\":{\"driver\":\"file\",\"filename\":\"e.qcow2\"}}";
    let words = match word {
        "S" => vec!["--object", "secret,id=s,data=hunter2"],
        "N" => vec!["--object", "secret,id=n,data=hunter3"],
        "O" => vec!["--image-opts"],
        "L" => vec!["driver=luks,key-secret=s,file.filename=l.luks"],
        "C" => vec!["driver=luks,key-secret=s,file.filename=cbc.luks"],
        "D" => vec!["driver=luks,key-secret=s,file.filename=odd.luks"],
        "if=D" => vec!["if=driver=luks,key-secret=s,file.filename=odd.luks"],
        "J" => vec![json],
        other => return vec![other.replace('Q', qcow2)],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Two programs, with the same images.
struct Pair {
    theirs: Caller,
    ours: Caller,
    wrong: Vec<String>,
}

impl Pair {
    fn new(directory: &Path) -> Self {
        let link = directory.join("qemu-img");
        symlink(DISKFS, &link).unwrap();
        let [first, second] = ["theirs", "ours"].map(|name| directory.join(name));
        let theirs = Caller::new("qemu-img".into(), &first);
        let ours = Caller::new(link, &second);
        make_images(&first);
        for file in fs::read_dir(&first).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), second.join(file.file_name())).unwrap();
        }
        Self {
            theirs,
            ours,
            wrong: Vec::new(),
        }
    }

    /// Compares the answers to a call.
    fn call(&mut self, mode: &str, words: &str) {
        let expanded: Vec<String> = words.split(' ').flat_map(expand).collect();
        let expanded: Vec<&str> = expanded.iter().map(String::as_str).collect();
        let (theirs, ours) = (self.theirs.call(&expanded), self.ours.call(&expanded));
        if let Some(what) = difference(mode, &theirs, &ours) {
            let line = format!("{mode} {words}: {what}\n{theirs:?}\n{ours:?}");
            self.wrong.push(line);
        }
    }

    /// Compares the answers to a table of calls.
    fn calls(&mut self, table: &str) {
        for line in table.lines() {
            let (mode, words) = line.split_once(' ').unwrap();
            self.call(mode, words);
        }
    }
}

#[test]
fn encrypted_images_have_the_same_answers() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut pair = Pair::new(directory.path());
    pair.calls(CALLS);
    assert!(pair.wrong.is_empty(), "{}", pair.wrong.join("\n\n"));
    let Pair { theirs, ours, .. } = pair;
    let (first, second) = (theirs.directory.clone(), ours.directory.clone());
    for name in ["no.raw", "no.qcow2", "no.luks"] {
        assert!(!second.join(name).exists(), "{name}");
    }
    // What the backing file has is not copied: the image has little more than its LUKS header.
    for directory in [&first, &second] {
        let len = fs::metadata(directory.join("none.qcow2")).unwrap().len();
        assert!(len < 3 << 20, "{len}");
    }
    let images = [(&theirs.program, &second), (&ours.program, &first)];
    for (program, directory) in images {
        let reader = Caller {
            program: program.clone(),
            directory: directory.clone(),
        };
        for image in MADE {
            let plain = "driver=raw,file.filename=plain.raw";
            let secret = "secret,id=s,data=hunter2";
            let words = ["compare", "--object", secret, "--image-opts", image, plain];
            let done = reader.call(&words);
            assert!(done.status.success(), "{program:?} {image}: {done:?}");
            if image.contains("qcow2") {
                let words = ["check", "--object", secret, "--image-opts", image];
                let done = reader.call(&words);
                assert!(done.status.success(), "{program:?} {image}: {done:?}");
            }
        }
    }
}

/// Both programs change the keys of both kinds of images, and open what the other has changed.
#[test]
fn keys_are_changed_alike() {
    if require("qemu-img").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut pair = Pair::new(directory.path());
    let plain = ["create", "-f", "qcow2", "p.qcow2", "4M"];
    for caller in [&pair.theirs, &pair.ours] {
        assert!(caller.call(&plain).status.success());
    }
    for (image, file, prefix) in [("L", "l.luks", ""), ("Q", "e.qcow2", "encrypt.")] {
        let full = if image == "Q" { AMENDS_OF_FULL } else { "" };
        for line in AMENDS.lines().chain(full.lines()) {
            let (mode, words) = line.split_once(' ').unwrap();
            let (force, options) = words.split_once(' ').unwrap_or(("", words));
            let options: Vec<String> = options
                .split(',')
                .map(|option| format!("{prefix}{option}"))
                .collect();
            let force = if force.is_empty() { "" } else { " --force" };
            let options = options.join(",");
            pair.call(mode, &format!("amend S N O{force} -o {options} {image}"));
            if mode == "text" {
                check_slots(&pair, file);
            }
        }
    }
    let one = "encrypt.state=active,encrypt.new-secret=n,encrypt.iter-time=10";
    for line in AMENDS_WITH_OTHERS.lines() {
        let (mode, options) = line.split_once(' ').unwrap();
        let options = options.replace('K', one);
        let free = "encrypt.state=inactive,encrypt.keyslot=6";
        pair.call("text", &format!("amend S O --force -o {free} Q"));
        let image = pair.ours.directory.join("e.qcow2");
        let before = fs::read(&image).unwrap();
        pair.call(mode, &format!("amend S N O -o {options} Q"));
        if mode == "text" {
            check_slots(&pair, "e.qcow2");
            check_properties(&pair);
        } else {
            assert!(fs::read(&image).unwrap() == before, "{line}");
        }
    }
    pair.calls(OTHER_AMENDS);
    assert!(pair.wrong.is_empty(), "{}", pair.wrong.join("\n\n"));
    for name in ["l.luks", "e.qcow2"] {
        for caller in [&pair.theirs, &pair.ours] {
            for key in ["hunter2", "hunter3"] {
                check_contents(&pair, caller, name, key);
            }
        }
    }
}

/// Checks that the same key slots are in use in the images of both programs.
fn check_slots(pair: &Pair, file: &str) {
    let slots = [&pair.theirs, &pair.ours].map(|caller| {
        let words = ["info", "--output=json", file];
        let found = Caller {
            program: "qemu-img".into(),
            directory: caller.directory.clone(),
        }
        .call(&words);
        let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        let data = &found["format-specific"]["data"];
        let header = data.get("encrypt").unwrap_or(data);
        let slots = header["slots"].as_array().unwrap().iter();
        slots.map(|slot| slot["active"].clone()).collect::<Vec<_>>()
    });
    assert_eq!(slots[0], slots[1], "{file}");
    assert_eq!(slots[0].len(), 8);
}

/// Checks that the qcow2 images of both programs have the same properties.
fn check_properties(pair: &Pair) {
    let data = [&pair.theirs, &pair.ours].map(|caller| {
        let found = caller.call(&["info", "--output=json", "e.qcow2"]);
        let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        let data = &found["format-specific"]["data"];
        ["compat", "lazy-refcounts", "refcount-bits"].map(|name| data[name].clone())
    });
    assert_eq!(data[0], data[1]);
}

/// Checks that both programs read an image of one of them with a key.
fn check_contents(pair: &Pair, of: &Caller, name: &str, key: &str) {
    let driver = match name {
        "e.qcow2" => "driver=qcow2,encrypt.key-secret=s",
        _ => "driver=luks,key-secret=s",
    };
    let image = format!("{driver},file.filename={name}");
    let secret = format!("secret,id=s,data={key}");
    let plain = "driver=raw,file.filename=plain.raw";
    for program in [&pair.theirs.program, &pair.ours.program] {
        let reader = Caller {
            program: program.clone(),
            directory: of.directory.clone(),
        };
        let words = [
            "compare",
            "--object",
            &secret,
            "--image-opts",
            &image,
            plain,
        ];
        let done = reader.call(&words);
        let program = program.display();
        assert!(done.status.success(), "{program} {name} {key}: {done:?}");
    }
}
