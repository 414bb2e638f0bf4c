//! The input line below the log, for the resource to read.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The maximum number of characters. A URI of a resource has at most 8 KiB.
const MAX_CHARS: usize = 8192;

/// An input line.
#[derive(Debug, Default)]
pub(super) struct LineEditor {
    text: String,
}

/// The state of the line after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The user is still typing.
    Typing,
    /// The user confirmed the line.
    Submitted(String),
    /// The user cancelled the line.
    Cancelled,
}

impl LineEditor {
    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Edited {
        let is_control = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter => return Edited::Submitted(std::mem::take(&mut self.text)),
            KeyCode::Esc => return Edited::Cancelled,
            KeyCode::Char('d') if is_control => return Edited::Cancelled,
            KeyCode::Char('u') if is_control => self.text.clear(),
            KeyCode::Char('w') if is_control => {
                let end = self.text.trim_end().rfind([' ', '/']).unwrap_or(0);
                self.text.truncate(end);
            }
            KeyCode::Char('h') if is_control => _ = self.text.pop(),
            KeyCode::Backspace => _ = self.text.pop(),
            KeyCode::Char(c) if !is_control && self.text.chars().count() < MAX_CHARS => self.text.push(c),
            _ => {}
        }
        Edited::Typing
    }

    /// The text of the line.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(editor: &mut LineEditor, keys: &str) {
        for key in keys.chars() {
            assert_eq!(editor.press(KeyCode::Char(key).into()), Edited::Typing);
        }
    }

    fn control(key: char) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL)
    }

    #[test]
    fn a_line_is_typed_corrected_and_confirmed() {
        let mut editor = LineEditor::default();
        press(&mut editor, "notes:///ラx");
        editor.press(KeyCode::Backspace.into());
        editor.press(KeyCode::Left.into());
        assert_eq!(editor.text(), "notes:///ラ");
        assert_eq!(editor.press(KeyCode::Enter.into()), Edited::Submitted("notes:///ラ".to_owned()));
        assert_eq!(editor.text(), "");
    }

    #[test]
    fn the_keys_of_a_terminal_delete_a_word_and_the_line() {
        let mut editor = LineEditor::default();
        press(&mut editor, "git://linux/tree");
        editor.press(control('w'));
        assert_eq!(editor.text(), "git://linux");
        editor.press(control('u'));
        assert_eq!(editor.text(), "");
        editor.press(control('x'));
        assert_eq!(editor.text(), "");
    }

    #[test]
    fn a_line_can_be_abandoned() {
        let mut editor = LineEditor::default();
        press(&mut editor, "2");
        assert_eq!(editor.press(KeyCode::Esc.into()), Edited::Cancelled);
        assert_eq!(editor.press(control('d')), Edited::Cancelled);
    }
}
