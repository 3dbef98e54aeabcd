//! `diskfs_fuzz::systemd_journal` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::systemd_journal(data));
