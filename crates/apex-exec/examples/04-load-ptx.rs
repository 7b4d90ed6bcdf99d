//! Loads PTX that was made elsewhere: from a file named on the command line, or a small one of its own.
//!
//! `cargo run -p apex-exec --example 04-load-ptx -- kernels.ptx NAME` says what the kernel NAME takes and uses.

use apex_exec::{Device, EXAMPLE_PTX, Executor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let text = match arguments.next() {
        Some(path) => std::fs::read_to_string(path)?,
        None => EXAMPLE_PTX.to_owned(),
    };
    let name = arguments.next().unwrap_or_else(|| "add".into());

    let executor = Executor::new(Device::Auto)?;
    let kernel = executor.load_ptx(&text)?.kernel(&name)?;
    let attributes = kernel.attributes();
    println!("{name} takes parameters of {:?} bytes", kernel.parameter_bytes());
    println!(
        "{} registers, {} bytes of shared and {} of local memory",
        attributes.registers, attributes.shared_bytes, attributes.local_bytes
    );
    println!("blocks of 256 threads that a multiprocessor holds: {}", kernel.occupancy(256, 0)?);
    Ok(())
}
