//! The libFuzzer target of `diskfs_fuzz::qcow2_bitmaps`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::qcow2_bitmaps(data));
