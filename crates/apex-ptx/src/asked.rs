//! What a text asks of the compiler beside its code, written into the text itself.
//!
//! A caller asks by an option; what comes out of a link or an assembler is loaded by somebody who does not know it.

/// Asks for at most so many registers a thread, at the end of the text, where no line moves.
pub fn ask_registers(text: &mut String, registers: u32) {
    text.truncate(text.trim_end_matches('\0').len());
    text.push_str(&format!("\n.pragma \"maxrregcount {registers}\";\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wish_stands_behind_the_code() {
        let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n\0\0");
        ask_registers(&mut text, 38);
        assert!(text.ends_with("64\n\n.pragma \"maxrregcount 38\";\n"), "{text}");
        assert!(crate::parse(&text).is_ok());
    }
}
