//! Where calls come in: each turns its C arguments into one plain description of the call.

mod exports;
mod first_call;
mod hooks;
#[cfg_attr(test, expect(dead_code, reason = "a test binary must not replace dlopen and dlsym"))]
mod loader;
mod nvrtc;
#[cfg_attr(test, expect(dead_code, reason = "a test binary must not replace exec"))]
mod programs;
