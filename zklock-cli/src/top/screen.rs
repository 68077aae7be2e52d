//! The terminal: a screen of its own, which is taken back at the end.

use std::io::{Stdout, Write, stdout};
use std::panic::{set_hook, take_hook};
use std::thread::current;

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyModifiers, read};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use tokio::sync::mpsc;

use crate::top::model::Key;

/// The size of a terminal that does not tell its own.
const USUAL: (usize, usize) = (100, 30);

pub(super) struct Screen(Stdout);

impl Screen {
    pub(super) fn open() -> std::io::Result<Self> {
        // What it says about a panic would go with the screen.
        let (own, told) = (current().id(), take_hook());
        set_hook(Box::new(move |panic| {
            if current().id() == own {
                give_back();
            }
            told(panic);
        }));
        enable_raw_mode()?;
        // From here on it is taken back, whatever fails.
        let mut screen = Screen(stdout());
        execute!(screen.0, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Width and height.
    pub(super) fn size(&self) -> (usize, usize) {
        match size() {
            Ok((width, height)) if width > 0 && height > 0 => (width.into(), height.into()),
            _ => USUAL,
        }
    }

    pub(super) fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        queue!(self.0, MoveTo(0, 0))?;
        for (row, line) in lines.iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(self.0, MoveTo(0, row), Print(line), Clear(ClearType::UntilNewLine))?;
        }
        queue!(self.0, Clear(ClearType::FromCursorDown))?;
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // Nobody is left to be told where the terminal is gone.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// What is typed. Read on a thread of its own, which ends with the program.
pub(super) fn keys() -> mpsc::UnboundedReceiver<Key> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = read() {
            let key = match event {
                Event::Resize(..) => Some(Key::Redraw),
                Event::Key(key) => match key.code {
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        Some(Key::Quit)
                    }
                    KeyCode::Esc => Some(Key::Quit),
                    KeyCode::Char(typed) => Key::of(typed),
                    _ => None,
                },
                _ => None,
            };
            if key.is_some_and(|key| sender.send(key).is_err()) {
                return;
            }
        }
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "a part of the next one"]
    fn panics_on_its_screen() {
        let _screen = Screen::open().unwrap();
        panic!("it fell");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_told_there() {
        let own = std::env::current_exe().unwrap();
        let part = "--exact top::screen::tests::panics_on_its_screen --ignored --nocapture";
        let run = format!("{} {part}\\n", own.display());
        let steps = [
            ["ready> ", &run],
            ["it fell", ""],
            ["ready> ", "echo mode $(stty -a < /dev/tty | grep -o -e '-*icanon')\\n"],
            ["mode icanon", "exit\\n"],
        ];
        let mut shell = std::process::Command::new("python3");
        shell.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/terminal.py"));
        let output = shell.args(steps.concat()).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{shown}");
        assert!(shown.find("\x1b[?1049l") < shown.find("it fell"), "{shown}");
    }
}
