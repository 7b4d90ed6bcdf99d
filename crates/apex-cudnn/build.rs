//! Gives the library cuDNN's name; its own references stay inside it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcudnn.so.9");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
