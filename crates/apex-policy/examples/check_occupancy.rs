//! Compares the occupancy computed here with what a driver answered.
//!
//! `check_occupancy FILE MAJOR MINOR` reads the table the device sweep wrote: a header
//! line naming the columns, then one combination a line. It prints how many rows are
//! equal and how many differ, shows the first few that differ, and exits with 1 when
//! any does. Columns are found by name, so their order is free. Lines that begin with `#`
//! are skipped.
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own, which reads what a device said"
)]

use std::process::ExitCode;

use apex_policy::{Carveout, Chip, KernelNeeds, occupancy};

const SHOWN: usize = 20;

fn main() -> ExitCode {
    match compare(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(reason) => {
            eprintln!("check_occupancy: {reason}");
            ExitCode::from(2)
        }
    }
}

fn compare(arguments: Vec<String>) -> Result<bool, String> {
    let [file, major, minor] = <[String; 3]>::try_from(arguments)
        .map_err(|_| "usage: check_occupancy FILE MAJOR MINOR")?;
    let number = |text: &String| text.parse().map_err(|_| format!("{text} is not a number"));
    let chip = Chip::for_capability(number(&major)?, number(&minor)?)
        .ok_or(format!("compute capability {major}.{minor} is not known"))?;
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let header = lines.next().ok_or(format!("{file} is empty"))?;

    let (mut equal, mut different) = (0_usize, 0_usize);
    for line in lines {
        let row = Row::parse(header, line).ok_or(format!("cannot read the row: {line}"))?;
        let computed = occupancy(&chip, &row.needs, row.threads_per_block);
        if computed.blocks_per_sm == row.blocks_from_driver {
            equal += 1;
            continue;
        }
        different += 1;
        if different <= SHOWN {
            println!(
                "different: {line}: computed {} (limited by {})",
                computed.blocks_per_sm, computed.limiter
            );
        }
    }
    println!("equal {equal} different {different}");
    if equal + different == 0 {
        return Err(format!("{file} has no rows"));
    }
    Ok(different == 0)
}

struct Row {
    needs: KernelNeeds,
    threads_per_block: u32,
    blocks_from_driver: u32,
}

impl Row {
    fn parse(header: &str, line: &str) -> Option<Row> {
        let field = |name: &str| {
            let mut named = header.split(',').zip(line.split(','));
            named.find(|(column, _)| column.trim() == name).map(|(_, value)| value.trim())
        };
        let size = |name: &str| field(name)?.parse::<u32>().ok();
        Some(Row {
            needs: KernelNeeds {
                registers: size("registers")?,
                static_shared: size("static_shared")?,
                dynamic_shared: size("dynamic_shared")?,
                max_dynamic_shared: size("max_dynamic_shared")?,
                carveout: Carveout::from_attribute(field("carveout")?.parse().ok()?),
            },
            threads_per_block: size("block")?,
            blocks_from_driver: size("blocks_from_driver")?,
        })
    }
}
