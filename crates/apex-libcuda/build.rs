//! Gives the library the face of a libcuda for the loader.
//!
//! The name it is known by is libcuda's. Its own references stay inside it: another
//! library with the same exported names may be loaded first, and would otherwise
//! be called in its place. And once loaded it stays, whoever closes it: its threads
//! are still at work.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
