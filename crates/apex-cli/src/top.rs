//! `apex top`: the running sessions of this user, twice a second.
//!
//! It follows the snapshots that each `apex run` leaves beside its rings ([`apex_daemon::watch`], as the dashboard
//! does), so it needs no connection to the programs and costs them nothing. Keys and snapshots change only the
//! [`Screen`]; what is drawn follows from it alone, which is how it is tested.

mod areas;
mod change;
mod rows;
mod screen;
mod terminal;
mod view;

use crate::arguments::Top;
use crate::layout::coloured;
use crate::pages::print_page;
use crate::pages::shown;
use apex_daemon::live::{INTERVAL, snapshots};
use apex_daemon::speech::say;
use apex_daemon::summary::SCHEMA;
use apex_daemon::user_setup::UserSetup;
use ratatui::crossterm::event::{Event, KeyEventKind};
use screen::Screen;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;
use terminal::Stage;

pub(crate) fn top(arguments: &Top) -> anyhow::Result<ExitCode> {
    let setup = UserSetup::read();
    if arguments.json {
        let document =
            serde_json::json!({"schema": SCHEMA, "sessions": snapshots(&setup.rings_places)});
        return print_page((serde_json::to_string_pretty(&document)? + "\n").as_bytes());
    }
    if !std::io::stdout().is_terminal() {
        say("top needs a terminal; `apex top --json` prints what runs now");
        return Ok(ExitCode::FAILURE);
    }
    let mut screen = Screen { colour: coloured(&std::io::stdout()), ..Screen::default() };
    let mut stage = Stage::take()?;
    while !screen.done {
        screen.update(shown(&snapshots(&setup.rings_places)));
        let next_look = Instant::now() + INTERVAL;
        loop {
            stage.draw(|frame| {
                screen.resize(frame.area());
                view::draw(frame, &screen);
            })?;
            match Stage::next(next_look)? {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => screen.press(key),
                Some(_) => {}
                None => break,
            }
            if screen.done {
                break;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
