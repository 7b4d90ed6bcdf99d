//! The facts of a session as Parquet tables, and back.
//!
//! One table each for processes, devices, kernels, images and graphs; `process` joins them to the events.
//! The whole fact also stands in the column `line` as the process wrote it: readers of other tools use
//! the plain columns, apex itself reads the line and so never needs two descriptions of a fact.

use super::parquet_file::write_table;
use crate::Error;
use crate::known::{Known, KnownProcess};
use crate::names::Demangled;
use apex_core::facts::Fact;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use std::path::Path;
use std::sync::Arc;

/// Names of the tables of facts.
pub(crate) const TABLES: [&str; 5] = ["processes", "devices", "kernels", "images", "graphs"];

/// Writes all tables.
pub fn write_facts(directory: &Path, known: &Known) -> Result<(), Error> {
    let tables = [processes(known), devices(known), kernels(known), images(known), graphs(known)];
    for (name, table) in TABLES.iter().zip(tables) {
        let path = directory.join(format!("{name}.parquet"));
        let batch = RecordBatch::try_from_iter_with_nullable(table)
            .map_err(|error| Error::write(&path)(std::io::Error::other(error)))?;
        write_table(&path, &batch)?;
    }
    Ok(())
}

type Table = Vec<(&'static str, ArrayRef, bool)>;

/// Rows of one table: the process number and the fact.
fn whole<T>(rows: &[(u32, T)], value: impl Fn(&T) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, row)| value(row))))
}

fn text<T>(rows: &[(u32, T)], value: impl Fn(&T) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(|(_, row)| value(row))))
}

fn numbers<T>(rows: &[(u32, T)]) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(process, _)| *process)))
}

fn gather<'a, T>(
    known: &'a Known,
    of: impl Fn(&'a KnownProcess) -> Vec<&'a T>,
) -> Vec<(u32, &'a T)> {
    let numbered = (0..).zip(&known.processes);
    numbered
        .flat_map(|(number, process)| of(process).into_iter().map(move |row| (number, row)))
        .collect()
}

fn processes(known: &Known) -> Table {
    let rows: Vec<(u32, &KnownProcess)> = (0..).zip(&known.processes).collect();
    let process_of = |known: &&KnownProcess| known.process.clone().unwrap_or_default();
    let ended: UInt64Array = rows.iter().map(|(_, known)| known.ended_ns).collect();
    vec![
        ("process", numbers(&rows), false),
        ("pid", whole(&rows, |known| u64::from(known.pid)), false),
        ("parent", whole(&rows, |known| process_of(known).parent), false),
        ("executable", text(&rows, |known| process_of(known).executable), false),
        ("arguments", text(&rows, |known| process_of(known).arguments.join(" ")), false),
        ("driver_version", whole(&rows, |known| process_of(known).driver_version), false),
        ("driver_path", text(&rows, |known| process_of(known).driver_path), false),
        ("found_ns", whole(&rows, |known| known.found_ns), false),
        ("ended_ns", Arc::new(ended), true),
        ("refused_lines", whole(&rows, |known| known.refused), false),
        ("failures", text(&rows, |known| known.failures.join("\n")), false),
        ("line", text(&rows, |known| Fact::Process(process_of(known)).line()), false),
    ]
}

fn devices(known: &Known) -> Table {
    let rows = gather(known, |process| process.devices.values().collect());
    vec![
        ("process", numbers(&rows), false),
        ("ordinal", whole(&rows, |device| device.ordinal), false),
        ("name", text(&rows, |device| device.name.clone()), false),
        ("uuid", text(&rows, |device| device.uuid.clone()), false),
        ("capability", text(&rows, |device| format!("{}.{}", device.major, device.minor)), false),
        ("sms", whole(&rows, |device| device.sms), false),
        ("memory_bytes", whole(&rows, |device| device.memory), false),
        ("line", text(&rows, |device| Fact::Device((**device).clone()).line()), false),
    ]
}

fn kernels(known: &Known) -> Table {
    let rows = gather(known, |process| process.kernels.values().collect());
    let mut names = Demangled::default();
    let demangled =
        StringArray::from_iter_values(rows.iter().map(|(_, row)| names.name(&row.name).to_owned()));
    let carveout = Int64Array::from_iter_values(rows.iter().map(|(_, kernel)| kernel.carveout));
    vec![
        ("process", numbers(&rows), false),
        ("kernel", whole(&rows, |kernel| kernel.id), false),
        ("name", Arc::new(demangled), false),
        ("mangled", text(&rows, |kernel| kernel.name.clone()), false),
        ("registers", whole(&rows, |kernel| kernel.registers), false),
        ("static_shared", whole(&rows, |kernel| kernel.static_shared), false),
        ("max_dynamic_shared", whole(&rows, |kernel| kernel.max_dynamic_shared), false),
        ("local", whole(&rows, |kernel| kernel.local), false),
        ("max_threads", whole(&rows, |kernel| kernel.max_threads), false),
        ("carveout", Arc::new(carveout), false),
        ("ptx_version", whole(&rows, |kernel| kernel.ptx_version), false),
        ("binary_version", whole(&rows, |kernel| kernel.binary_version), false),
        ("parameters", whole(&rows, |kernel| kernel.parameters.len() as u64 / 2), false),
        ("image", whole(&rows, |kernel| kernel.image), false),
        ("image_hash", whole(&rows, |kernel| kernel.image_hash), false),
        ("line", text(&rows, |kernel| Fact::Kernel((**kernel).clone()).line()), false),
    ]
}

fn images(known: &Known) -> Table {
    let rows = gather(known, |process| process.images.values().collect());
    vec![
        ("process", numbers(&rows), false),
        ("image", whole(&rows, |image| image.id), false),
        ("kind", text(&rows, |image| image.kind.clone()), false),
        ("bytes", whole(&rows, |image| image.bytes), false),
        ("hash", whole(&rows, |image| image.hash), false),
        ("file", text(&rows, |image| image.file.clone()), false),
        ("line", text(&rows, |image| Fact::Image((**image).clone()).line()), false),
    ]
}

fn graphs(known: &Known) -> Table {
    let rows = gather(known, |process| process.graphs.values().collect());
    vec![
        ("process", numbers(&rows), false),
        ("graph", whole(&rows, |graph| graph.id), false),
        ("kernel_nodes", whole(&rows, |graph| graph.kernel_nodes), false),
        ("nodes", whole(&rows, |graph| graph.nodes), false),
        ("conditional_nodes", whole(&rows, |graph| graph.conditional_nodes), false),
        ("line", text(&rows, |graph| Fact::Graph((**graph).clone()).line()), false),
    ]
}
