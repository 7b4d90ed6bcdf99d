//! How many blocks of a kernel fit.

use core::ffi::c_void;

use apex_cuda::Driver;
use apex_cuda::types::CUfunction;

use crate::border::{check, get, wanted};
use crate::context::current;
use crate::errors::Error;
use crate::function::function;
use crate::launch::{LaunchConfig, driver_config};
use crate::registry;

fn found(func: *const c_void) -> Result<(&'static Driver, CUfunction), Error> {
    let driver = current()?;
    let function = function(driver, registry::code(driver, func)?)?;
    Ok((driver, function))
}

runtime! {
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        out: *mut i32,
        func: *const c_void,
        block_size: i32,
        shared_bytes: usize,
    ) {
        let (driver, function) = found(func)?;
        let ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor;
        check(ask(wanted(out)?, function, block_size, shared_bytes))
    }

    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        out: *mut i32,
        func: *const c_void,
        block_size: i32,
        shared_bytes: usize,
        flags: u32,
    ) {
        let (driver, function) = found(func)?;
        let ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
        check(ask(wanted(out)?, function, block_size, shared_bytes, flags))
    }

    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        out: *mut usize,
        func: *const c_void,
        blocks: i32,
        block_size: i32,
    ) {
        let (driver, function) = found(func)?;
        let ask = driver.cuOccupancyAvailableDynamicSMemPerBlock;
        check(ask(wanted(out)?, function, blocks, block_size))
    }

    fn cudaOccupancyMaxActiveClusters(
        out: *mut i32,
        func: *const c_void,
        config: *const LaunchConfig,
    ) {
        let (driver, function) = found(func)?;
        let config = driver_config(&get(config)?)?;
        check((driver.cuOccupancyMaxActiveClusters)(wanted(out)?, function, &raw const config))
    }

    fn cudaOccupancyMaxPotentialClusterSize(
        out: *mut i32,
        func: *const c_void,
        config: *const LaunchConfig,
    ) {
        let (driver, function) = found(func)?;
        let config = driver_config(&get(config)?)?;
        let ask = driver.cuOccupancyMaxPotentialClusterSize;
        check(ask(wanted(out)?, function, &raw const config))
    }
}
