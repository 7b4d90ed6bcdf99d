//! Launches, copies and streams: what comes out is what was asked for.
//!
//! The same tests run on the software GPU and, with `APEX_DEVICE=gpu`, on a GPU.

use apex_exec::{Device, EXAMPLE_PTX, Error, Executor, Grid, Module, Pipeline};
use half::{bf16, f16};

fn executor() -> Executor {
    Executor::new(Device::Auto).expect("a GPU or the software GPU")
}

fn numbers(length: usize) -> Vec<f32> {
    (0..length).map(|number| number as f32).collect()
}

#[test]
fn every_element_type_goes_to_the_device_and_back() {
    let executor = executor();
    macro_rules! check {
        ($($values:expr),*) => {$({
            let values = $values;
            let buffer = executor.upload(&values).unwrap();
            assert_eq!(executor.download(&buffer).unwrap(), values);
        })*};
    }
    check!([1.5_f32, -2.5], [1.5_f64], [i8::MIN, 3], [i16::MIN], [i32::MIN], [i64::MIN]);
    check!([u8::MAX], [u16::MAX], [u32::MAX], [u64::MAX, 1, 2]);
    check!([f16::from_f32(1.5)], [bf16::from_f32(-0.5), bf16::ONE]);
}

#[test]
fn any_length_is_added_right() {
    let executor = executor();
    let add = executor.load_ptx(EXAMPLE_PTX).unwrap().kernel("add").unwrap();
    for length in [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 65537] {
        let host = numbers(length);
        let a = executor.upload(&host).unwrap();
        let b = executor.upload(&host).unwrap();
        let mut sum = executor.poisoned::<f32>(length).unwrap();
        let grid = Grid::for_elements(length as u64, 128);
        let count = length as u32;
        executor
            .stream()
            .launch(&add, grid)
            .arg(&a)
            .arg(&b)
            .arg(&mut sum)
            .arg(&count)
            .run()
            .unwrap();
        let expected: Vec<f32> = host.iter().map(|value| value + value).collect();
        assert_eq!(executor.download(&sum).unwrap(), expected, "{length}");
    }
}

#[test]
fn memory_that_wanders_between_streams_keeps_its_order() {
    let executor = executor();
    let scale = executor.load_ptx(EXAMPLE_PTX).unwrap().kernel("scale").unwrap();
    let streams: Vec<_> = (0..4).map(|_| executor.new_stream().unwrap()).collect();
    let length = 20_000;
    let mut values = streams[0].upload(&vec![1.0_f32; length]).unwrap();
    let grid = Grid::for_elements(length as u64, 128);
    for step in 0..40 {
        let factor = if step % 2 == 0 { 4.0_f32 } else { 0.5 };
        let stream = &streams[step % 4];
        stream
            .launch(&scale, grid)
            .arg(&mut values)
            .arg(&factor)
            .arg(&(length as u32))
            .run()
            .unwrap();
    }
    let result = streams[3].download(&values).unwrap();
    assert!(result.iter().all(|&value| value == 2.0_f32.powi(20)), "{}", result[0]);
}

#[test]
fn a_buffer_is_not_overwritten_while_another_stream_reads_it() {
    let executor = executor();
    let readers: Vec<_> = (0..3).map(|_| executor.new_stream().unwrap()).collect();
    let length = 50_000;
    for round in 0..20_u32 {
        let mut shared = executor.upload(&vec![round; length]).unwrap();
        let mut copies: Vec<_> =
            readers.iter().map(|reader| reader.zeros::<u32>(length).unwrap()).collect();
        for (reader, copy) in readers.iter().zip(&mut copies) {
            reader.copy(&shared, copy).unwrap();
        }
        executor.stream().fill_bytes(&mut shared, 0xFF).unwrap();
        drop(shared);
        for (reader, copy) in readers.iter().zip(&copies) {
            assert!(reader.download(copy).unwrap().iter().all(|&value| value == round));
        }
    }
}

#[test]
fn memory_freed_on_one_stream_is_not_reused_too_early_on_another() {
    let executor = executor();
    let other = executor.new_stream().unwrap();
    for round in 0..50_u8 {
        let source = executor.upload(&vec![round; 30_000]).unwrap();
        let mut copy = other.zeros::<u8>(30_000).unwrap();
        other.copy(&source, &mut copy).unwrap();
        drop(source);
        let poison = executor.poisoned::<u8>(30_000).unwrap();
        assert!(other.download(&copy).unwrap().iter().all(|&value| value == round));
        drop(poison);
    }
}

#[test]
fn halves_of_one_buffer_can_be_written_by_two_streams() {
    let executor = executor();
    let (first, second) = (executor.new_stream().unwrap(), executor.new_stream().unwrap());
    let mut buffer = executor.zeros::<u8>(1000).unwrap();
    let (mut low, mut high) = buffer.split_at_mut(300);
    std::thread::scope(|scope| {
        scope.spawn(|| first.fill_bytes(&mut low, 1).unwrap());
        scope.spawn(|| second.fill_bytes(&mut high, 2).unwrap());
    });
    let result = executor.download(&buffer).unwrap();
    assert!(result[..300].iter().all(|&value| value == 1));
    assert!(result[300..].iter().all(|&value| value == 2));
}

#[test]
fn a_dropped_streams_work_is_done_all_the_same() {
    let executor = executor();
    let mut buffer = executor.zeros::<u8>(100_000).unwrap();
    for byte in 1..=20 {
        executor.new_stream().unwrap().fill_bytes(&mut buffer, byte).unwrap();
    }
    assert!(executor.download(&buffer).unwrap().iter().all(|&value| value == 20));
}

#[test]
fn copies_under_way_give_their_memory_back() {
    let executor = executor();
    let stream = executor.new_stream().unwrap();
    let mut staging = executor.pinned::<u32>(1000).unwrap();
    for round in 0..10 {
        staging.fill(round);
        let (buffer, uploaded) = stream.upload_async(staging).unwrap();
        let downloaded = stream.download_async(&buffer).unwrap();
        drop(buffer);
        assert!(downloaded.wait().unwrap().iter().all(|&value| value == round));
        staging = uploaded.wait().unwrap();
    }
    // A handle that nobody waits for waits by itself.
    let buffer = executor.upload(&[7_u32; 1000]).unwrap();
    drop(stream.download_async(&buffer).unwrap());
}

#[test]
fn a_pipeline_gives_results_in_order() {
    let executor = executor();
    let scale = executor.load_ptx(EXAMPLE_PTX).unwrap().kernel("scale").unwrap();
    for depth in [1, 2, 3, 5] {
        let input = numbers(10_000);
        let mut output = Vec::new();
        let pipeline = Pipeline::new(&executor, depth).unwrap();
        pipeline
            .run(
                input.chunks(777),
                |length| length,
                |stream, piece, result| {
                    stream.copy(piece, &mut *result)?;
                    let length = piece.len() as u32;
                    let grid = Grid::for_elements(u64::from(length), 256);
                    stream.launch(&scale, grid).arg(result).arg(&3.0_f32).arg(&length).run()
                },
                |result: &[f32]| {
                    output.extend_from_slice(result);
                    Ok(())
                },
            )
            .unwrap();
        let expected: Vec<f32> = input.iter().map(|value| value * 3.0).collect();
        assert_eq!(output, expected, "depth {depth}");
    }
}

#[test]
fn a_pipeline_ends_at_the_first_error_and_can_be_used_again() {
    let executor = executor();
    let pipeline = Pipeline::new(&executor, 3).unwrap();
    let input = vec![1_u8; 1000];
    let mut begun = 0;
    let mut handed_out = 0;
    let result = pipeline.run(
        input.chunks(10),
        |length| length,
        |stream, piece, result| {
            begun += 1;
            let wrong = usize::from(begun == 5);
            stream.copy(piece.slice(wrong..), result)
        },
        |_: &[u8]| {
            handed_out += 1;
            Ok(())
        },
    );
    assert!(result.unwrap_err().to_string().contains("9 elements cannot become 10"));
    assert_eq!((begun, handed_out), (5, 2));
    let mut total = 0;
    let again = pipeline.run(
        input.chunks(10),
        |length| length,
        |stream, piece, result| stream.copy(piece, result),
        |result: &[u8]| {
            total += result.len();
            Ok(())
        },
    );
    again.unwrap();
    assert_eq!(total, 1000);
}

#[test]
fn events_measure_and_order() {
    let executor = executor();
    let other = executor.new_stream().unwrap();
    let before = executor.stream().record().unwrap();
    let buffer = executor.upload(&vec![1_u8; 1 << 20]).unwrap();
    let after = executor.stream().record().unwrap();
    other.wait_for(&after).unwrap();
    let seconds = after.seconds_since(&before).unwrap();
    assert!(seconds > 0.0 && seconds < 10.0, "{seconds}");
    assert!(before.is_done().unwrap());
    drop(buffer);
}

#[test]
fn a_part_of_a_buffer_is_a_kernels_argument() {
    let executor = executor();
    let scale = executor.load_ptx(EXAMPLE_PTX).unwrap().kernel("scale").unwrap();
    let mut values = executor.upload(&numbers(8)).unwrap();
    let mut middle = values.slice_mut(2..5);
    let grid = Grid::linear(1, 32);
    executor
        .stream()
        .launch(&scale, grid)
        .arg(&mut middle)
        .arg(&10.0_f32)
        .arg(&3_u32)
        .run()
        .unwrap();
    assert_eq!(executor.download(&values).unwrap(), [0.0, 1.0, 20.0, 30.0, 40.0, 5.0, 6.0, 7.0]);
}

#[test]
fn a_kernel_outlives_its_module_and_its_executor() {
    let executor = executor();
    let scale = executor.load_ptx(EXAMPLE_PTX).unwrap().kernel("scale").unwrap();
    let stream = executor.new_stream().unwrap();
    drop(executor);
    let mut values = stream.upload(&[2.0_f32]).unwrap();
    stream
        .launch(&scale, Grid::linear(1, 1))
        .arg(&mut values)
        .arg(&4.0_f32)
        .arg(&1_u32)
        .run()
        .unwrap();
    assert_eq!(stream.download(&values).unwrap(), [8.0]);
}

fn run_five(executor: &Executor, module: &Module) -> apex_exec::Result<Vec<i32>> {
    let mut out = executor.zeros::<i32>(1)?;
    let five = module.kernel("five")?;
    assert_eq!(five.parameter_bytes(), [8]);
    executor.stream().launch(&five, Grid::linear(1, 1)).arg(&mut out).run()?;
    executor.download(&out)
}

#[test]
fn a_fatbin_is_loaded_and_run() {
    let executor = executor();
    let module = executor.load_fatbin(include_bytes!("images/five.fatbin")).unwrap();
    assert_eq!(run_five(&executor, &module).unwrap(), [5]);
    let unknown = module.kernel("six").unwrap_err();
    assert!(unknown.to_string().contains("extern \"C\""), "{unknown}");
}

#[test]
fn a_cubin_is_loaded_where_its_architecture_is() {
    let executor = executor();
    let loaded = executor.load_cubin(include_bytes!("images/five.cubin"));
    let facts = executor.facts();
    if !facts.is_software && facts.compute_capability.0 == 9 {
        assert_eq!(run_five(&executor, &loaded.unwrap()).unwrap(), [5]);
        return;
    }
    let error = loaded.unwrap_err();
    assert!(matches!(error, Error::BadImage { kind: "cubin", .. }), "{error}");
    assert!(error.to_string().contains("or load PTX"), "{error}");
}
