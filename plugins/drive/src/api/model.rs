//! The answers of the API. Only the used fields are declared.

use crate::id::Id;
use mcp_provider::json::bounded_list;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum number of items of a list: the largest page of the API.
pub(super) const MAX_ITEMS: usize = 1000;

/// The fields of a file that are requested.
pub(super) const FILE_FIELDS: &str = "id,name,mimeType,description,size,modifiedTime,trashed,parents,driveId,webViewLink,\
                                      shortcutDetails(targetId,targetMimeType)";
pub(super) const DRIVE_FIELDS: &str = "name";

/// The type of folders.
pub(crate) const FOLDER: &str = "application/vnd.google-apps.folder";
/// The type of shortcuts.
pub(crate) const SHORTCUT: &str = "application/vnd.google-apps.shortcut";
/// The prefix of Google's types.
const GOOGLE_APPS: &str = "application/vnd.google-apps.";

/// The metadata of a file or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct File {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) mime_type: String,
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// The size in bytes, in decimal digits.
    #[serde(default)]
    size: Option<String>,
    /// RFC 3339, with milliseconds.
    #[serde(default)]
    pub(crate) modified_time: Option<String>,
    #[serde(default)]
    pub(crate) trashed: bool,
    #[serde(default, deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    pub(crate) parents: Vec<Id>,
    /// The shared drive that contains the file.
    #[serde(default)]
    pub(crate) drive_id: Option<Id>,
    #[serde(default)]
    pub(crate) web_view_link: Option<String>,
    #[serde(default)]
    pub(crate) shortcut_details: Option<Shortcut>,
}

/// The target of a shortcut.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shortcut {
    pub(crate) target_id: Id,
    #[serde(default)]
    pub(crate) target_mime_type: String,
}

impl File {
    /// Returns the size of a stored file in bytes. Documents of Google's types have no size.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size.as_ref().filter(|_| !self.is_google_type())?.parse().ok()
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.mime_type == FOLDER
    }

    pub(crate) fn is_shortcut(&self) -> bool {
        self.mime_type == SHORTCUT
    }

    /// Returns whether the content must be exported.
    pub(crate) fn is_google_type(&self) -> bool {
        self.mime_type.starts_with(GOOGLE_APPS)
    }
}

/// A page of files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileList {
    #[serde(default, deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    pub(crate) files: Vec<File>,
    #[serde(default)]
    pub(crate) next_page_token: Option<String>,
    /// Whether parts of the scope were not searched.
    #[serde(default)]
    pub(crate) incomplete_search: bool,
}

/// A page of changes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeList {
    #[serde(default, deserialize_with = "bounded_list::<MAX_ITEMS, _, _>")]
    pub(crate) changes: Vec<Change>,
    #[serde(default)]
    pub(crate) next_page_token: Option<String>,
    /// Only on the last page.
    #[serde(default)]
    pub(crate) new_start_page_token: Option<String>,
}

/// A change of a file, or of a shared drive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// The file; `None` if a shared drive changed.
    #[serde(default)]
    pub(crate) file_id: Option<Id>,
    /// Whether the file was deleted, or the account lost its access.
    #[serde(default)]
    pub(crate) removed: bool,
    /// The state after the change; `None` if the file is gone.
    #[serde(default)]
    pub(crate) file: Option<ChangedFile>,
}

/// The state of a file after a change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangedFile {
    #[serde(default)]
    pub(crate) mime_type: String,
}

/// The formats of exports, by Google's types.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ExportFormats(pub(crate) BTreeMap<String, Vec<String>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    #[serde(default)]
    pub(super) export_formats: ExportFormats,
}

#[derive(Deserialize)]
pub(super) struct SharedDrive {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartPageToken {
    pub(super) start_page_token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded_and_an_id_that_is_none_refuses_the_answer() {
        let parse = |files: &str| serde_json::from_str::<FileList>(&format!("{{\"files\":[{files}]}}"));
        let file = r#"{"id":"a","name":"A","mimeType":"text/plain","size":"12"}"#;
        assert_eq!(parse(file).unwrap().files[0].size(), Some(12));
        assert!(parse(&vec![file; 1000].join(",")).is_ok());
        assert!(parse(&vec![file; 1001].join(",")).is_err());
        assert!(parse(&file.replace("\"a\"", "\"../a\"")).is_err());
        assert!(parse("[]").is_err());
    }

    #[test]
    fn documents_of_googles_types_have_no_size() {
        let json = r#"{"id":"a","name":"A","mimeType":"application/vnd.google-apps.document","size":"12"}"#;
        assert_eq!(serde_json::from_str::<File>(json).unwrap().size(), None);
    }
}
