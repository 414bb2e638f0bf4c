//! Pages of files and of changes.

use super::model::{ChangeList, FILE_FIELDS, FileList, MAX_ITEMS};
use super::{Client, Error};
use crate::id::Id;

/// The maximum length of a page token in bytes, so that it fits into a cursor.
pub(crate) const PAGE_TOKEN_LEN: usize = 3000;

/// The search scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Corpora {
    /// The account's own files, and the files shared with it.
    User,
    /// One shared drive.
    Drive(Id),
    /// The account's files and all shared drives.
    All,
}

/// A query for files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileQuery {
    /// The condition, in Drive's query language.
    pub(crate) q: String,
    pub(crate) corpora: Corpora,
    /// The order: `name`. Full-text search does not allow an order.
    pub(crate) order_by: Option<&'static str>,
    pub(crate) page_size: usize,
}

impl Client<'_> {
    /// Returns a page of the files that match a query.
    pub(crate) fn list(&self, query: &FileQuery, page_token: Option<&str>) -> Result<FileList, Error> {
        let fields = format!("nextPageToken,incompleteSearch,files({FILE_FIELDS})");
        let page_size = query.page_size.clamp(1, MAX_ITEMS).to_string();
        let mut parameters = vec![
            ("q", query.q.as_str()),
            ("fields", &fields),
            ("pageSize", &page_size),
            ("supportsAllDrives", "true"),
            ("includeItemsFromAllDrives", "true"),
        ];
        match &query.corpora {
            Corpora::User => {}
            Corpora::Drive(id) => parameters.extend([("corpora", "drive"), ("driveId", id.as_str())]),
            Corpora::All => parameters.push(("corpora", "allDrives")),
        }
        parameters.extend(query.order_by.map(|order| ("orderBy", order)));
        parameters.extend(page_token.map(|token| ("pageToken", token)));
        let list: FileList = self.json("files", &parameters)?;
        check_token(list.next_page_token.as_deref())?;
        Ok(list)
    }

    /// Calls `each` with all files that match a query. Few are expected.
    pub(crate) fn list_all(&self, query: &FileQuery, mut each: impl FnMut(super::File)) -> Result<(), Error> {
        let mut token: Option<String> = None;
        loop {
            let list = self.list(query, token.as_deref())?;
            list.files.into_iter().for_each(&mut each);
            match list.next_page_token {
                Some(next) => token = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Returns a page of changes.
    pub(crate) fn changes(&self, page_token: &str) -> Result<ChangeList, Error> {
        let page_size = MAX_ITEMS.to_string();
        let list: ChangeList = self.json(
            "changes",
            &[
                ("pageToken", page_token),
                ("pageSize", &page_size),
                ("includeRemoved", "true"),
                ("supportsAllDrives", "true"),
                ("includeItemsFromAllDrives", "true"),
                ("fields", "nextPageToken,newStartPageToken,changes(fileId,removed,file(mimeType))"),
            ],
        )?;
        check_token(list.next_page_token.as_deref().or(list.new_start_page_token.as_deref()))?;
        Ok(list)
    }
}

fn check_token(token: Option<&str>) -> Result<(), Error> {
    match token {
        Some(token) if token.is_empty() || token.len() > PAGE_TOKEN_LEN => {
            Err(Error::nonsense(format!("a page token has {} bytes", token.len())))
        }
        _ => Ok(()),
    }
}
