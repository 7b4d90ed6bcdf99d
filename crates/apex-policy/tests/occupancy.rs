//! Occupancy against NVIDIA's published calculator, and the cases a reader can follow.

use apex_policy::{Carveout, Chip, KernelNeeds, LaunchShape, Limiter, launch_facts, occupancy};

const KIB: u32 = 1024;
const H200_SMS: u32 = 132;

fn hopper() -> Chip {
    Chip::for_capability(9, 0).expect("Hopper is listed")
}

/// A kernel whose attributes nobody changed.
fn kernel(registers: u32, static_shared: u32) -> KernelNeeds {
    KernelNeeds {
        registers,
        static_shared,
        dynamic_shared: 0,
        max_dynamic_shared: 48 * KIB - static_shared,
        carveout: Carveout::Unset,
    }
}

/// A kernel that opted in to as much dynamic shared memory as a block may have.
fn opted_in(dynamic_shared: u32, carveout: Carveout) -> KernelNeeds {
    KernelNeeds { dynamic_shared, max_dynamic_shared: 227 * KIB, carveout, ..kernel(16, 0) }
}

#[track_caller]
fn check(needs: &KernelNeeds, threads_per_block: u32, blocks: u32, limiter: Limiter) {
    let found = occupancy(&hopper(), needs, threads_per_block);
    assert_eq!((found.blocks_per_sm, found.limiter), (blocks, limiter));
}

#[test]
fn equals_the_driver_of_an_h200() {
    let table = include_str!("occupancy_h200.csv");
    let mut rows = 0;
    for line in table.lines().filter(|line| !line.starts_with(['#', 'r'])) {
        let fields: Vec<i32> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let number = |index: usize| u32::try_from(fields[index]).unwrap();
        let needs = KernelNeeds {
            registers: number(0),
            static_shared: number(1),
            dynamic_shared: number(2),
            max_dynamic_shared: number(3),
            carveout: Carveout::from_attribute(fields[5]),
        };
        let found = occupancy(&hopper(), &needs, number(4));
        assert_eq!(found.blocks_per_sm, number(6), "{line}: limited by {}", found.limiter);
        rows += 1;
    }
    assert!(rows > 7000, "only {rows} rows were checked");
}

#[test]
fn equals_the_published_calculator() {
    let table = include_str!("occupancy_expected.csv");
    let mut rows = 0;
    for line in table.lines().filter(|line| !line.starts_with(['#', 'c'])) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |index: usize| fields[index].parse::<u32>().unwrap();
        let (major, minor) = fields[0].split_once('.').unwrap();
        let chip = Chip::for_capability(major.parse().unwrap(), minor.parse().unwrap()).unwrap();
        let needs = KernelNeeds {
            registers: number(1),
            static_shared: number(2),
            dynamic_shared: number(3),
            max_dynamic_shared: number(4),
            carveout: Carveout::from_attribute(fields[6].parse().unwrap()),
        };
        if needs.dynamic_shared > needs.max_dynamic_shared {
            // Here the calculator and the driver part; the driver's answers are in the other table.
            continue;
        }
        let found = occupancy(&chip, &needs, number(5));
        assert_eq!(found.blocks_per_sm, number(7), "{line}: limited by {}", found.limiter);
        let named = match found.limiter {
            Limiter::None => {
                assert_eq!(found.warps_per_sm, chip.max_warps_per_sm(), "{line}");
                "w"
            }
            Limiter::Warps => "w",
            Limiter::Blocks => "b",
            Limiter::Registers => "r",
            Limiter::SharedMemory => "s",
        };
        // Warps and blocks come first where limits are equal; a full SM may be full of
        // blocks that any of them stops.
        let expected = fields[8];
        assert!(expected.contains(named) || found.limiter == Limiter::None, "{line}: {named}");
        rows += 1;
    }
    assert!(rows > 14 * 190, "only {rows} rows were checked");
}

#[test]
fn a_small_kernel_fills_the_multiprocessor() {
    check(&kernel(32, 0), 256, 8, Limiter::None);
    check(&kernel(32, 0), 1024, 2, Limiter::None);
}

#[test]
fn block_size() {
    // 64 warps hold two blocks of 24, not three.
    check(&kernel(16, 0), 768, 2, Limiter::Warps);
    check(&kernel(16, 0), 1025, 0, Limiter::Warps);
    check(&kernel(16, 0), 0, 0, Limiter::Warps);
}

#[test]
fn blocks_per_multiprocessor() {
    check(&kernel(16, 0), 32, 32, Limiter::Blocks);
    check(&kernel(0, 0), 1, 32, Limiter::Blocks);
}

#[test]
fn registers_are_rounded_per_warp_and_kept_in_their_sub_partition() {
    // 33 registers round to 40: 12 warps in each of 4 sub-partitions are 48 warps.
    check(&kernel(33, 0), 256, 6, Limiter::Registers);
    // 80 registers: 6 warps in each sub-partition are 24, though an undivided file held 25.
    check(&kernel(80, 0), 32, 24, Limiter::Registers);
    check(&kernel(255, 0), 256, 1, Limiter::Registers);
    check(&kernel(255, 0), 288, 0, Limiter::Registers);
    check(&kernel(257, 0), 32, 0, Limiter::Registers);
}

#[test]
fn shared_memory_counts_the_reserve_of_every_block() {
    // 48 KiB and 1 KiB reserved: four blocks of 49 KiB in 228 KiB.
    check(&kernel(16, 48 * KIB), 64, 4, Limiter::SharedMemory);
    check(&opted_in(227 * KIB, Carveout::Unset), 64, 1, Limiter::SharedMemory);
    check(&opted_in(227 * KIB + 1, Carveout::Unset), 64, 0, Limiter::SharedMemory);
    check(&opted_in(56 * KIB, Carveout::Unset), 64, 4, Limiter::SharedMemory);
    check(&opted_in(56 * KIB + 1, Carveout::Unset), 64, 3, Limiter::SharedMemory);
}

#[test]
fn dynamic_shared_memory_beyond_the_kernels_limit_is_refused() {
    let needs = KernelNeeds { dynamic_shared: 48 * KIB + 1, ..kernel(16, 0) };
    check(&needs, 64, 0, Limiter::SharedMemory);
}

#[test]
fn carveout_is_a_preference() {
    // 10 % of 228 KiB lies below 32 KiB: two blocks of 16 KiB.
    check(&opted_in(15 * KIB, Carveout::Percent(10)), 64, 2, Limiter::SharedMemory);
    // No shared memory wished, but the reserve alone needs the 8 KiB step.
    check(&opted_in(0, Carveout::Percent(0)), 64, 8, Limiter::SharedMemory);
    // A block larger than the wish gets the smallest capacity that holds it.
    check(&opted_in(49 * KIB, Carveout::Percent(0)), 64, 1, Limiter::SharedMemory);
    check(&opted_in(49 * KIB, Carveout::Percent(100)), 64, 4, Limiter::SharedMemory);
    check(&opted_in(49 * KIB, Carveout::Unset), 64, 4, Limiter::SharedMemory);
}

#[test]
fn carveout_attribute() {
    assert_eq!(Carveout::from_attribute(-1), Carveout::Unset);
    assert_eq!(Carveout::from_attribute(0), Carveout::Percent(0));
    assert_eq!(Carveout::from_attribute(100), Carveout::Percent(100));
    assert_eq!(Carveout::from_attribute(101), Carveout::Unset);
}

#[test]
fn a_device_may_tell_its_own_limits() {
    let halved = Chip { registers_per_sm: 32_768, max_registers_per_block: 32_768, ..hopper() };
    assert_eq!(occupancy(&halved, &kernel(32, 0), 256).blocks_per_sm, 4);
    let larger = Chip { shared_per_sm: 300 * KIB, ..hopper() };
    assert_eq!(occupancy(&larger, &kernel(16, 48 * KIB), 64).blocks_per_sm, 6);
}

#[test]
fn fraction_is_the_share_of_warp_slots() {
    let found = occupancy(&hopper(), &kernel(33, 0), 256);
    assert_eq!((found.warps_per_sm, found.fraction), (48, 0.75));
}

#[test]
fn limiter_names() {
    let names =
        [Limiter::None, Limiter::Warps, Limiter::Blocks, Limiter::Registers, Limiter::SharedMemory]
            .map(|limiter| limiter.to_string());
    assert_eq!(names, ["none", "block size", "blocks per SM", "registers", "shared memory"]);
}

#[track_caller]
fn check_waves(blocks: [u32; 3], waves: f32, full_waves: u64, tail_fraction: f32) {
    let shape = LaunchShape { grid: blocks, block: [16, 16, 1] };
    let found = launch_facts(&hopper(), H200_SMS, &kernel(32, 0), &shape);
    assert_eq!(
        (found.waves, found.full_waves, found.tail_fraction),
        (waves, full_waves, tail_fraction)
    );
}

#[test]
fn waves_and_their_tail() {
    // Eight blocks on each of 132 multiprocessors: 1056 at once.
    check_waves([1056, 1, 1], 1.0, 1, 0.0);
    check_waves([528, 2, 2], 2.0, 2, 0.0);
    check_waves([264, 1, 1], 0.25, 0, 0.75);
    check_waves([1584, 1, 1], 1.5, 1, 0.5);
    check_waves([0, 1, 1], 0.0, 0, 0.0);
}

#[test]
fn a_refused_launch_has_no_waves() {
    let shape = LaunchShape { grid: [1000, 1, 1], block: [64, 32, 1] };
    let found = launch_facts(&hopper(), H200_SMS, &kernel(32, 0), &shape);
    assert_eq!((found.occupancy.blocks_per_sm, found.waves, found.full_waves), (0, 0.0, 0));
    assert_eq!(found.tail_fraction, 0.0);
}

#[test]
fn lanes_of_a_block() {
    for (block, idle_lanes, block_efficiency) in
        [([256, 1, 1], 0, 1.0), ([8, 3, 1], 8, 0.75), ([1, 1, 1], 31, 0.03125), ([0, 1, 1], 0, 0.0)]
    {
        let shape = LaunchShape { grid: [1, 1, 1], block };
        let found = launch_facts(&hopper(), H200_SMS, &kernel(32, 0), &shape);
        assert_eq!((found.idle_lanes, found.block_efficiency), (idle_lanes, block_efficiency));
    }
}

#[test]
fn sizes_that_overflow_are_refused_and_not_wrapped() {
    let shape = LaunchShape { grid: [u32::MAX; 3], block: [u32::MAX; 3] };
    let needs = KernelNeeds {
        registers: u32::MAX,
        static_shared: u32::MAX,
        dynamic_shared: u32::MAX,
        max_dynamic_shared: u32::MAX,
        carveout: Carveout::Percent(100),
    };
    let found = launch_facts(&hopper(), u32::MAX, &needs, &shape);
    assert_eq!((found.occupancy.blocks_per_sm, found.full_waves), (0, 0));
    assert_eq!(shape.blocks(), u64::MAX);
}
