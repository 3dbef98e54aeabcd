//! Gives the shared library its soname, by which the dynamic loader finds it: its version is that
//! of the binary interface, which is incremented when a function or a struct changes.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdiskfs.so.0");
    }
}
