//! Tests of reading, and of how much of a hive is read.

mod common;

use std::sync::Arc;

use common::{all_sorts, device, open};
use diskfs_block::{Counting, ErrorKind};
use diskfs_registry::testing::{HiveBuilder, Leaf};
use diskfs_registry::{DataType, Hive, Recovery, Value};

#[test]
fn keys_say_who_they_are() {
    let builder = all_sorts(Leaf::Hash, 5, 40);
    let hive = open(&builder.build(), &[]).unwrap();
    assert_eq!(hive.recovery(), Recovery::Clean);
    assert_eq!(hive.version(), (1, 5));
    assert_eq!(hive.last_written(), builder.last_written);
    let root = hive.root().unwrap();
    let key = root.subkey(r"control\LSA\jd").unwrap().unwrap();
    assert_eq!(key.name(), "JD");
    assert_eq!(key.class_name().unwrap().as_deref(), Some("1a2b3c4d"));
    assert_eq!(root.class_name().unwrap(), None);
    assert_eq!(key.security_descriptor().unwrap().unwrap().len(), 48);
    assert_eq!(key.last_written(), builder.last_written);
    let key = root.subkey(r"\ÜNÏCODE\ключ").unwrap().unwrap();
    assert_eq!(
        key.value("ИМЯ").unwrap(),
        Some(Value::String("значение".into()))
    );
    assert!(key.value("").unwrap().is_none());
    assert_eq!(
        root.subkey("Many")
            .unwrap()
            .unwrap()
            .subkeys()
            .unwrap()
            .count(),
        40
    );
}

#[test]
fn large_values_are_refused_unless_asked_for() {
    let data: Vec<u8> = (0..(2_u32 << 20)).map(|at| at.to_le_bytes()[1]).collect();
    for minor_version in [3, 4, 6] {
        let mut builder = HiveBuilder::new();
        builder.minor_version = minor_version;
        builder.value("", "large", DataType::BINARY, &data);
        let hive = open(&builder.build(), &[]).unwrap();
        let root = hive.root().unwrap();
        let error = root.value("large").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let value = root.named_value("LARGE").unwrap().unwrap();
        assert_eq!(value.len_bytes(), 2 << 20);
        assert!(value.bytes_at_most(4 << 20).unwrap() == data);
    }
}

#[test]
fn big_data_ends_where_it_says() {
    for len in [16_343, 16_344, 16_345, 16_346, 32_688, 32_689] {
        let data: Vec<u8> = (0..len).map(|at: u32| at.to_le_bytes()[1]).collect();
        let mut builder = HiveBuilder::new();
        builder.value("", "x", DataType::BINARY, &data);
        let hive = open(&builder.build(), &[]).unwrap();
        let value = hive.root().unwrap().value("x").unwrap();
        assert!(value == Some(Value::Binary(data)), "{len}");
    }
}

/// Fifty lookups in a hive of 100 MiB read a few hundred pages.
#[test]
fn a_large_hive_is_read_in_part() {
    let mut builder = HiveBuilder::new();
    let filler = vec![7; 12_000];
    for number in 0..8500 {
        builder.value(
            &format!(r"Classes\Class {number}"),
            "x",
            DataType::BINARY,
            &filler,
        );
    }
    for number in 0..50 {
        builder.string(
            &format!(r"Microsoft\Windows\Current {number}\Run"),
            "x",
            "y",
        );
    }
    let bytes = builder.build();
    assert!(bytes.len() > 95 << 20);
    let disk = Arc::new(Counting::new(device(&bytes)));
    let started = std::time::Instant::now();
    let hive = Hive::open(disk.clone(), &[]).unwrap();
    let root = hive.root().unwrap();
    for number in 0..50 {
        let path = format!(r"microsoft\windows\current {number}\run");
        let key = root.subkey(&path).unwrap().unwrap();
        assert_eq!(key.value("x").unwrap(), Some(Value::String("y".into())));
    }
    let elapsed = started.elapsed();
    let counts = disk.counts();
    assert!(counts.read_bytes < 1 << 20, "{counts:?}");
    assert!(elapsed.as_millis() < 500, "{elapsed:?}");
}

#[test]
fn versions_before_nt4_are_refused() {
    let mut builder = HiveBuilder::new();
    builder.minor_version = 1;
    let error = open(&builder.build(), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        open(&[0; 8192], &[]).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(open(b"regf", &[]).unwrap_err().kind(), ErrorKind::Corrupt);
}
