//! The libFuzzer target of `diskfs_fuzz::systemd_journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::systemd_journal(data));
