//! The terminal: a screen of its own, which is taken back at the end.

use std::io::{Stdout, Write, stdout};

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
        // Nobody is left to be told where the terminal is gone.
        let _ = execute!(self.0, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
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
