//! Many threads on one executor: no error, no wrong number.

use apex_exec::{EXAMPLE_PTX, Grid, global};

#[test]
fn thirty_two_threads_launch_allocate_and_copy_on_the_global_executor() {
    let module = global().unwrap().load_ptx(EXAMPLE_PTX).unwrap();
    let shared = global().unwrap().upload(&vec![1.0_f32; 3000]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..32_u32 {
            let (module, shared) = (&module, &shared);
            scope.spawn(move || {
                let executor = global().unwrap();
                let own = executor.new_stream().unwrap();
                let (add, scale) = (module.kernel("add").unwrap(), module.kernel("scale").unwrap());
                for round in 0..30_u32 {
                    let stream = if round % 2 == 0 { &own } else { executor.stream() };
                    let length = 1 + (thread * 97 + round * 31) % 3000;
                    let value = (thread * 100 + round) as f32;
                    let grid = Grid::for_elements(u64::from(length), 64);
                    let mut mine = stream.upload(&vec![value; length as usize]).unwrap();
                    stream
                        .launch(&scale, grid)
                        .arg(&mut mine)
                        .arg(&2.0_f32)
                        .arg(&length)
                        .run()
                        .unwrap();
                    let mut sum = executor.poisoned::<f32>(length as usize).unwrap();
                    let both = own
                        .launch(&add, grid)
                        .arg(&mine)
                        .arg(shared)
                        .arg(&mut sum)
                        .arg(&length)
                        .run();
                    both.unwrap();
                    drop(mine);
                    let result = if round % 3 == 0 {
                        executor.stream().download_async(&sum).unwrap().wait().unwrap().to_vec()
                    } else {
                        executor.download(&sum).unwrap()
                    };
                    assert!(
                        result.iter().all(|&found| found == 2.0 * value + 1.0),
                        "{thread} {round}"
                    );
                }
            });
        }
    });
    assert!(global().unwrap().download(&shared).unwrap().iter().all(|&value| value == 1.0));
}

#[test]
fn a_kernel_is_looked_up_by_many_threads_at_once() {
    let module = global().unwrap().load_ptx(EXAMPLE_PTX).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(module.kernel("add").unwrap().name(), "add"));
        }
    });
}
