//! Links the shim as what programs look for: `libcuda.so.1`, bound at load and never unloaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in ["-soname,libcuda.so.1", "-z,nodelete", "-z,now"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
