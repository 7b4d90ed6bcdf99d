//! Whatever is wrong is told with the kernel, the argument and the remedy, and the executor goes on.

use apex_exec::{Device, EXAMPLE_PTX, Error, Executor, Grid, Kernel, Pipeline};

fn executor() -> Executor {
    Executor::new(Device::Auto).expect("a GPU or the software GPU")
}

fn scale(executor: &Executor) -> Kernel {
    let module = executor.load_ptx(EXAMPLE_PTX).expect("the example is PTX");
    module.kernel("scale").expect("the example has it")
}

/// The executor still computes.
fn still_works(executor: &Executor) {
    let kernel = scale(executor);
    let mut values = executor.upload(&[1.0_f32, 2.0]).expect("the executor still works");
    let grid = Grid::linear(1, 2);
    executor
        .stream()
        .launch(&kernel, grid)
        .arg(&mut values)
        .arg(&2.0_f32)
        .arg(&2_u32)
        .run()
        .expect("the executor still works");
    assert_eq!(executor.download(&values).expect("the executor still works"), [2.0, 4.0]);
}

#[test]
fn a_wrong_count_names_both_counts() {
    let executor = executor();
    let kernel = scale(&executor);
    let mut values = executor.zeros::<f32>(1).unwrap();
    let one = Grid::linear(1, 1);
    let launched = executor.stream().launch(&kernel, one).arg(&mut values).run();
    assert_eq!(launched, Err(Error::WrongCount { kernel: "scale".into(), expected: 3, given: 1 }));
    let mut launch = executor.stream().launch(&kernel, one);
    launch.arg(&mut values).arg(&1.0_f32).arg(&1_u32);
    for _ in 0..40 {
        launch.arg(&0_u32);
    }
    assert_eq!(
        launch.run(),
        Err(Error::WrongCount { kernel: "scale".into(), expected: 3, given: 43 })
    );
    still_works(&executor);
}

#[test]
fn a_wrong_size_names_the_argument_and_both_sizes() {
    let executor = executor();
    let kernel = scale(&executor);
    let mut values = executor.zeros::<f32>(1).unwrap();
    let one = Grid::linear(1, 1);
    let launched =
        executor.stream().launch(&kernel, one).arg(&mut values).arg(&1.0_f32).arg(&1_u64).run();
    let error = launched.unwrap_err();
    assert_eq!(
        error,
        Error::WrongSize {
            kernel: "scale".into(),
            argument: 3,
            expected: 4,
            given: "u64",
            given_bytes: 8
        }
    );
    // A number where memory is wanted.
    let launched =
        executor.stream().launch(&kernel, one).arg(&1.0_f32).arg(&1.0_f32).arg(&1_u32).run();
    assert!(matches!(launched, Err(Error::WrongSize { argument: 1, expected: 8, .. })));
    still_works(&executor);
}

#[test]
fn a_wrong_type_of_the_right_size_is_told() {
    let executor = executor();
    let kernel = scale(&executor);
    let mut values = executor.zeros::<f32>(1).unwrap();
    let one = Grid::linear(1, 1);
    let launched =
        executor.stream().launch(&kernel, one).arg(&mut values).arg(&1_u32).arg(&1_u32).run();
    let sentence = launched.unwrap_err().to_string();
    assert!(
        sentence.starts_with(
            "argument 2 of scale is declared as a floating-point number, u32 was given"
        ),
        "{sentence}"
    );
    let launched =
        executor.stream().launch(&kernel, one).arg(&mut values).arg(&1.0_f32).arg(&1.0_f32).run();
    assert!(matches!(launched, Err(Error::WrongType { argument: 3, given: "f32", .. })));
    still_works(&executor);
}

#[test]
fn grids_beyond_the_device_are_told_in_a_sentence() {
    let executor = executor();
    let kernel = scale(&executor);
    let mut values = executor.zeros::<f32>(1).unwrap();
    let most = executor.facts().shared_bytes_per_block;
    for (grid, words) in [
        (Grid::linear(1, 0), "needs a thread"),
        (Grid::linear(1, 1025), "1025 threads is more than the device's 1024"),
        (Grid::new([1, 1, 1], [1, 1, 65]), "65 threads along z"),
        (Grid::new([1, 65536, 1], [1, 1, 1]), "65536 blocks along y"),
        (Grid::for_elements(1 << 50, 1), "blocks along x"),
        (Grid::linear(1, 1).with_shared(most + 1), "bytes of shared memory"),
        (Grid::linear(3, 1).with_cluster([2, 1, 1]), "do not divide"),
        (Grid::linear(3, 1).with_cluster([0, 1, 1]), "do not divide"),
    ] {
        let mut launch = executor.stream().launch(&kernel, grid);
        let error = launch.arg(&mut values).arg(&1.0_f32).arg(&1_u32).run().unwrap_err();
        assert!(matches!(&error, Error::BadGrid { kernel, .. } if kernel == "scale"), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    still_works(&executor);
}

#[test]
fn shared_memory_up_to_the_devices_limit_is_allowed() {
    let executor = executor();
    let kernel = scale(&executor);
    let mut values = executor.upload(&[1.0_f32]).unwrap();
    let grid = Grid::linear(1, 1).with_shared(executor.facts().shared_bytes_per_block);
    executor
        .stream()
        .launch(&kernel, grid)
        .arg(&mut values)
        .arg(&2.0_f32)
        .arg(&1_u32)
        .run()
        .unwrap();
    assert_eq!(executor.download(&values).unwrap(), [2.0]);
}

#[test]
fn truncated_ptx_is_refused_with_its_line() {
    let executor = executor();
    let whole = EXAMPLE_PTX;
    for cut in [whole.len() / 4, whole.len() / 2, whole.len() * 3 / 4, whole.len() - 3] {
        let error = executor.load_ptx(&whole[..cut]).unwrap_err();
        assert!(matches!(error, Error::BadImage { kind: "PTX", .. }), "{error}");
        assert!(error.to_string().contains("line "), "{error}");
    }
    for text in ["", "not PTX", "\0", ".version 8.0\n.target sm_80\n.address_size 64\n"] {
        assert!(matches!(executor.load_ptx(text), Err(Error::BadImage { .. })), "{text:?}");
    }
    still_works(&executor);
}

#[test]
fn images_are_checked_before_the_driver_sees_them() {
    let executor = executor();
    for bytes in [&b""[..], b"\x7fELF", b"\x7fELF but not really", &[0x50, 0xed, 0x55, 0xba, 1, 0]]
    {
        assert!(matches!(executor.load_cubin(bytes), Err(Error::BadImage { kind: "cubin", .. })));
        assert!(matches!(executor.load_fatbin(bytes), Err(Error::BadImage { kind: "fatbin", .. })));
    }
    let error = executor.load_cubin(EXAMPLE_PTX.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("it is a Ptx"), "{error}");
}

#[test]
fn a_kernel_that_is_not_there_is_told_with_those_that_are() {
    let executor = executor();
    let module = executor.load_ptx(EXAMPLE_PTX).unwrap();
    for name in ["subtract", "", "add\0"] {
        let error = module.kernel(name).unwrap_err();
        assert!(error.to_string().contains("it has add, scale"), "{error}");
    }
}

#[test]
fn lengths_that_differ_are_told() {
    let executor = executor();
    let three = executor.upload(&[1_u8, 2, 3]).unwrap();
    let mut two = executor.zeros::<u8>(2).unwrap();
    assert!(matches!(executor.stream().copy(&three, &mut two), Err(Error::BadShape { .. })));
    assert!(matches!(executor.stream().write(&[1], &mut two), Err(Error::BadShape { .. })));
    let staging = executor.pinned::<u8>(4).unwrap();
    assert!(matches!(
        executor.stream().write_async(staging, &mut two),
        Err(Error::BadShape { .. })
    ));
    let staging = executor.pinned::<u8>(4).unwrap();
    assert!(matches!(executor.stream().read_async(&three, staging), Err(Error::BadShape { .. })));
}

#[test]
#[should_panic(expected = "goes beyond 3 elements")]
fn a_part_beyond_the_buffer_panics_as_with_a_slice() {
    let three = executor().upload(&[1_u8, 2, 3]).unwrap();
    let _ = three.slice(2..4);
}

#[test]
fn memory_that_the_device_does_not_have_is_refused_and_the_executor_goes_on() {
    let executor = executor();
    let held = executor.zeros::<u8>(1 << 20).unwrap();
    let asked = usize::try_from(executor.facts().memory_bytes).unwrap() + (1 << 20);
    for _ in 0..3 {
        match executor.zeros::<u8>(asked).unwrap_err() {
            Error::OutOfMemory { asked: told, free } => {
                assert_eq!(told, asked as u64);
                assert!(free > 0 && free < told);
            }
            other => panic!("{other}"),
        }
    }
    let sentence = executor.zeros::<u64>(usize::MAX).unwrap_err().to_string();
    assert!(sentence.contains("drop buffers"), "{sentence}");
    assert!(executor.download(&held).unwrap().iter().all(|&value| value == 0));
    still_works(&executor);
}

#[test]
fn a_small_device_can_be_filled_again_and_again() {
    let itself = std::env::current_exe().unwrap();
    let child = std::process::Command::new(itself)
        .args(["--exact", "filling_a_small_device", "--ignored", "--nocapture"])
        .env("APEX_DEVICE", "soft")
        .env("APEX_SOFTGPU_MEMORY", (32 << 20).to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "needs a device of 32 MiB, which the test above gives it"]
fn filling_a_small_device() {
    let executor = executor();
    let memory = usize::try_from(executor.facts().memory_bytes).unwrap();
    assert!(memory <= 32 << 20, "{memory}");
    let piece = 2 << 20;
    for _ in 0..3 {
        let mut held = Vec::new();
        let error = loop {
            match executor.upload(&vec![held.len() as u8; piece]) {
                Ok(buffer) => held.push(buffer),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, Error::OutOfMemory { asked, .. } if asked == piece as u64),
            "{error}"
        );
        assert!(held.len() * piece > memory / 2, "{} pieces", held.len());
        for (number, buffer) in held.iter().enumerate() {
            assert!(executor.download(buffer).unwrap().iter().all(|&byte| byte == number as u8));
        }
        held.pop();
        still_works(&executor);
    }
}

#[test]
fn things_of_another_executor_are_refused() {
    let (first, second) = (executor(), executor());
    let kernel = scale(&first);
    let mut values = second.upload(&[1.0_f32]).unwrap();
    let one = Grid::linear(1, 1);
    let launched =
        second.stream().launch(&kernel, one).arg(&mut values).arg(&1.0_f32).arg(&1_u32).run();
    assert_eq!(launched, Err(Error::OtherExecutor { what: "the kernel" }));
    let launched =
        first.stream().launch(&kernel, one).arg(&mut values).arg(&1.0_f32).arg(&1_u32).run();
    assert_eq!(launched, Err(Error::OtherExecutor { what: "a buffer" }));
    assert!(matches!(first.download(&values), Err(Error::OtherExecutor { .. })));
    let event = second.stream().record().unwrap();
    assert!(matches!(first.stream().wait_for(&event), Err(Error::OtherExecutor { .. })));
}

#[test]
fn a_device_that_is_not_there_is_told() {
    let error = Executor::new(Device::Soft(77)).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains("77"), "{error}");
}

#[test]
fn streams_have_a_limit_and_come_back() {
    let executor = executor();
    let mut streams = Vec::new();
    let error = loop {
        match executor.new_stream() {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::TooMany { what: "streams", limit: 1024 });
    assert!(Pipeline::new(&executor, 1).is_err());
    streams.truncate(1000);
    assert!(executor.new_stream().is_ok());
    still_works(&executor);
}
