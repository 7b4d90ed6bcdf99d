//! Gives the library the name that programs of the newest toolkit ask for; `apex run` links the others to it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvJitLink.so.13");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
