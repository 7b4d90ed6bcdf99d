//! A kernel that fails: its name comes with the error, and nothing hangs or panics afterwards.
//!
//! A file of its own, because such a failure takes the whole process's context along.

use apex_exec::{Device, EXAMPLE_PTX, Error, Executor, Grid};

#[test]
fn a_kernel_that_writes_where_nothing_is_is_named() {
    let executor = Executor::new(Device::Auto).unwrap();
    let scale = executor.load_ptx(EXAMPLE_PTX).unwrap().kernel("scale").unwrap();
    let held = executor.upload(&[1.0_f32; 100]).unwrap();
    let mut nothing = executor.zeros::<f32>(0).unwrap();
    let stream = executor.new_stream().unwrap();
    let grid = Grid::linear(1, 32);
    stream.launch(&scale, grid).arg(&mut nothing).arg(&2.0_f32).arg(&32_u32).run().unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(
        matches!(&error, Error::Driver { kernel: Some(name), .. } if name == "scale"),
        "{error}"
    );
    for words in ["ADDRESS", "compute-sanitizer", "cuStreamSynchronize"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    // The context is lost: everything says so, and nothing hangs, panics or runs.
    assert!(executor.download(&held).is_err());
    assert!(executor.zeros::<f32>(1 << 20).and_then(|buffer| executor.download(&buffer)).is_err());
    drop((held, nothing, scale, stream, executor));
}
