//! The options of loading and linking, and the logs that go back.
//!
//! C gives two arrays: which options, and a word for each, which is a number or an
//! address. Of the options the logs, the time and the limit of registers matter here;
//! the others ask a compiler for things that change no result.

use std::time::Instant;

use apex_cuda::types::*;

use crate::border::list;

/// Where the logs and the time are to be written.
pub(crate) struct Options {
    info: Log,
    error: Log,
    wall_time: *mut *mut c_void,
    /// The most registers that a thread may have.
    registers: Option<u32>,
    began: Instant,
}

// SAFETY: the pointers are the program's, who keeps the buffers for the calls that use them.
unsafe impl Send for Options {}
// SAFETY: as above; they are written by one call at a time.
unsafe impl Sync for Options {}

/// A buffer of the program and the word that holds its size.
struct Log {
    buffer: *mut c_char,
    size: *mut *mut c_void,
}

const MAX_REGISTERS: CUjit_option = 0;
const WALL_TIME: CUjit_option = 2;
const INFO_LOG: CUjit_option = 3;
const INFO_LOG_BYTES: CUjit_option = 4;
const ERROR_LOG: CUjit_option = 5;
const ERROR_LOG_BYTES: CUjit_option = 6;

impl Options {
    /// # Safety
    ///
    /// The arrays have as many elements, and stay until the logs are written.
    pub(crate) unsafe fn read(
        count: u32,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Result<Options, CUresult> {
        let none = || Log { buffer: core::ptr::null_mut(), size: core::ptr::null_mut() };
        let mut read = Options {
            info: none(),
            error: none(),
            wall_time: core::ptr::null_mut(),
            registers: None,
            began: Instant::now(),
        };
        // SAFETY: the caller vouches for the arrays.
        unsafe {
            let options = list(options, count as usize)?;
            list(values, count as usize)?;
            for (nth, &option) in options.iter().enumerate() {
                let value = values.add(nth);
                match option {
                    // An unsigned int in a word; 0 is no limit.
                    MAX_REGISTERS => {
                        let most = value.cast::<u32>().read();
                        read.registers = Some(most).filter(|&most| most > 0);
                    }
                    WALL_TIME => read.wall_time = value,
                    INFO_LOG => read.info.buffer = value.read().cast(),
                    INFO_LOG_BYTES => read.info.size = value,
                    ERROR_LOG => read.error.buffer = value.read().cast(),
                    ERROR_LOG_BYTES => read.error.size = value,
                    _ => {}
                }
            }
        }
        Ok(read)
    }

    /// Writes into texts what they ask of the compiler, at their end, where no line moves.
    pub(crate) fn ask(&self, texts: &mut [String]) {
        if let Some(registers) = self.registers {
            texts.iter_mut().for_each(|text| apex_ptx::ask_registers(text, registers));
        }
    }

    /// Writes the logs, cut to fit, and how long each is.
    ///
    /// # Safety
    ///
    /// The buffers have the room that the program said.
    pub(crate) unsafe fn write(&self, info: &str, error: &str) {
        // SAFETY: the caller vouches for the buffers.
        unsafe {
            self.info.write(info);
            self.error.write(error);
            if !self.wall_time.is_null() {
                let milliseconds = self.began.elapsed().as_secs_f32() * 1e3;
                self.wall_time.cast::<f32>().write(milliseconds);
            }
        }
    }
}

impl Log {
    /// # Safety
    ///
    /// As for [`Options::write`].
    unsafe fn write(&self, text: &str) {
        if self.size.is_null() {
            return;
        }
        // SAFETY: the caller vouches for the buffer and the word with its size.
        unsafe {
            // The size is an unsigned int in a word.
            let room = self.size.cast::<u32>().read() as usize;
            let mut written = 0;
            if !self.buffer.is_null() && room > 0 && !text.is_empty() {
                let kept = text.len().min(room - 1);
                self.buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), kept);
                self.buffer.add(kept).write(0);
                written = kept + 1;
            } else if !self.buffer.is_null() && room > 0 {
                self.buffer.write(0);
            }
            self.size.write(core::ptr::without_provenance_mut(written));
        }
    }
}
