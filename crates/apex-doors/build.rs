//! Once loaded the library stays, whoever closes it: the loader calls it whenever another library comes.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
