//! Gives the library cuBLAS's name; its own references stay inside it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcublas.so.13");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
