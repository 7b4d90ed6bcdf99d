//! A worker without PyTorch: the same lines, our own kernel, on whatever device there is.
//!
//! It shows that the benchmark and the scheduler work where there is no GPU. What it measures there is the
//! machine's processor, and no claim is made of it.

use anyhow::{Context, Result};
use apex_core::time::monotonic_nanos;
use apex_exec::{Buffer, Device, Executor, Grid, Kernel};
use apex_policy::schedule::simulate::Random;
use serde_json::{Value, json};
use std::io::BufRead;
use std::process::ExitCode;
use std::time::Duration;

/// Multiplies and adds as often as it is told.
const WORK: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry work(.param .u64 place, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .f32 %f<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [place];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r5, %r3, %r4, %r2;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    mov.u32 %r6, 0;
LOOP:
    fma.rn.f32 %f1, %f1, 0f3F7FF972, 0f3A83126F;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r1;
    @%p1 bra LOOP;
    st.global.f32 [%rd4], %f1;
    ret;
}
";
/// A request takes about 10 ms on two cores: long enough that what the scheduler does for each is little beside it.
const ELEMENTS: usize = 2048;
const REQUEST_LAUNCHES: usize = 8;
const STEP_LAUNCHES: usize = 12;
const ROUNDS: u32 = 6_000;

/// Works until told to stop.
pub(crate) fn work(latency: bool, train: bool) -> Result<ExitCode> {
    let executor = Executor::new(Device::Auto)?;
    let kernel = executor.load_ptx(WORK)?.kernel("work")?;
    let mut side = Side { values: executor.zeros::<f32>(ELEMENTS)?, kernel, executor };
    side.request()?;
    let mut digests = vec![side.digest()?];
    println!("{}", json!({"ready": "stand-in", "device": "stand-in"}));
    for line in std::io::stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line.context("no more orders")?)?;
        if order.get("quit").is_some() {
            break;
        }
        if order.get("service").is_some() {
            println!("{}", json!({"service_ns": side.service_ns()?}));
            continue;
        }
        let at = order["at"].as_u64().unwrap_or(0);
        let end = at + (order["seconds"].as_f64().unwrap_or(1.0) * 1e9) as u64;
        let (mut requests, mut steps) = (Vec::new(), Vec::new());
        if let (true, Some(rate)) = (latency, order["latency"]["rate"].as_f64()) {
            let mut random = Random::new(order["latency"]["seed"].as_u64().unwrap_or(1));
            for scheduled in random.poisson(rate, end - at) {
                sleep_until(at + scheduled);
                let started = monotonic_nanos() - at;
                // A server that is hopelessly behind need not finish.
                if at + started > end + 1_000_000_000 {
                    break;
                }
                side.request()?;
                requests.push(json!([scheduled, started, null, monotonic_nanos() - at]));
            }
            if !requests.is_empty() {
                digests.push(side.digest()?);
            }
        }
        if train && order["train"].as_bool() == Some(true) {
            sleep_until(at);
            while monotonic_nanos() < end {
                side.launches(STEP_LAUNCHES)?;
                steps.push(monotonic_nanos() - at);
            }
        }
        println!("{}", json!({"requests": requests, "steps": steps}));
    }
    println!("{}", json!({"digests": digests, "losses": []}));
    Ok(ExitCode::SUCCESS)
}

struct Side {
    executor: Executor,
    kernel: Kernel,
    values: Buffer<f32>,
}

impl Side {
    /// The time of one request, the median of twenty.
    fn service_ns(&mut self) -> Result<u64> {
        let mut times = Vec::new();
        for _ in 0..20 {
            let begun = monotonic_nanos();
            self.request()?;
            times.push(monotonic_nanos() - begun);
        }
        times.sort_unstable();
        Ok(times[10])
    }

    /// All bits of the answer as one number (FNV-1a).
    fn digest(&self) -> Result<String> {
        let values = self.executor.download(&self.values)?;
        let mixed = values.iter().flat_map(|value| value.to_le_bytes());
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Ok(format!("{:016x}", mixed.fold(0xcbf2_9ce4_8422_2325, mix)))
    }

    fn request(&mut self) -> Result<()> {
        self.values = self.executor.upload(&vec![1.0_f32; ELEMENTS])?;
        self.launches(REQUEST_LAUNCHES)
    }

    fn launches(&mut self, count: usize) -> Result<()> {
        let grid = Grid::linear((ELEMENTS / 128) as u32, 128);
        for _ in 0..count {
            let stream = self.executor.stream();
            stream.launch(&self.kernel, grid).arg(&mut self.values).arg(&ROUNDS).run()?;
        }
        Ok(self.executor.stream().synchronize()?)
    }
}

fn sleep_until(moment: u64) {
    let left = moment.saturating_sub(monotonic_nanos());
    std::thread::sleep(Duration::from_nanos(left));
}
