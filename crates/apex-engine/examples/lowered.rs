//! Prints the lowered code of every kernel in the PTX files named.
fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let mut memory: Vec<Vec<u64>> = Vec::new();
        let loaded = apex_engine::Module::load(&[&text], &mut |variable| {
            memory.push(vec![0; variable.bytes as usize / 8 + 64]);
            Some((memory.last()?.as_ptr() as u64).next_multiple_of(variable.align.max(1)))
        });
        match loaded {
            Ok(module) => {
                for kernel in module.kernels() {
                    println!("// {path} {} {:?}", kernel.name, kernel.unsupported);
                    println!(
                        "// registers {} shared {} local {} width {} file {} stack {}",
                        kernel.registers,
                        kernel.static_shared,
                        kernel.local,
                        kernel.code.width,
                        kernel.code.file_bytes,
                        kernel.code.stack_bytes
                    );
                    print!("{}", kernel.code);
                }
            }
            Err(error) => println!("// {path}: {error}"),
        }
    }
}
