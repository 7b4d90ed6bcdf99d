//! NVML for the software GPU: its devices, their memory, and which processes use them.
//!
//! Stands under the name `libnvidia-ml.so.1`, set up by `apex run` with the software GPU and never beside a GPU.
//! Frameworks ask it whether there is a device, and tools such as nvitop show it. The names of the devices say what
//! they are; what hardware alone has (power, temperature, links) is answered as not supported.
//!
//! | module | what it holds |
//! |---|---|
//! | `names` | the one table: every name that is exported |
//! | `exports` | a jump for each name to what answers it |
//! | `answers` | the functions that are answered |
//! | `devices` | what the software GPU tells of its devices, without being started |
//! | `workers` | processes with threads of the software GPU, and how busy they are |
//! | `border` | C arguments |

mod answers;
mod border;
mod devices;
mod exports;
mod names;
mod workers;
