"""The files of a stand-in for Drive, and the list of their changes."""

import base64
import io
import time

import openpyxl

import query

APPS = "application/vnd.google-apps."
FOLDER, SHORTCUT = APPS + "folder", APPS + "shortcut"
DOCUMENT, SPREADSHEET, PRESENTATION, DRAWING = (
    APPS + kind for kind in ("document", "spreadsheet", "presentation", "drawing")
)
WORKBOOK = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

# As the real table, shortened.
EXPORT_FORMATS = {
    DOCUMENT: ["application/rtf", "text/html", "application/pdf", "text/markdown", "text/plain"],
    SPREADSHEET: ["text/csv", "application/pdf", WORKBOOK],
    PRESENTATION: ["application/pdf", "text/plain"],
    DRAWING: ["image/svg+xml", "image/png"],
}
MAX_EXPORT = 10 * 1024 * 1024

# A transparent pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class File:
    """A file, a folder, a shortcut or a document.

    `content` is the text of a document or presentation, or of a stored file (`base64` for bytes), and the rows of each sheet
    of a spreadsheet: `{"NAME": [[…], …]}`.
    """

    def __init__(self, drive, given):
        self.drive = drive
        self.id = given["id"]
        self.is_accessible = True
        self.update(given)

    def update(self, given):
        take = lambda key, default: given.get(key, getattr(self, "given", {}).get(key, default))  # noqa: E731
        self.name, self.mime_type = take("name", self.id), take("mimeType", "text/plain")
        self.description, self.parents = take("description", None), take("parents", [])
        self.is_trashed_itself, self.starred = take("trashed", False), False
        self.target, self.lie = take("target", None), take("size", None)
        self.content = take("content", "")
        if given.get("base64") is not None:
            self.content = base64.b64decode(given["base64"])
        if given.get("repeat"):
            self.content = self.content * given["repeat"]
        self.given = {**getattr(self, "given", {}), **given, "content": self.content, "repeat": None, "base64": None}
        self.modified_time = self.drive.tick()

    @property
    def parent_files(self):
        return [self.drive.files[parent] for parent in self.parents if parent in self.drive.files]

    @property
    def trashed(self):
        return self.is_trashed_itself or any(parent.trashed for parent in self._ancestors())

    def _ancestors(self):
        seen, open_ = {}, list(self.parent_files)
        while open_:
            file = open_.pop()
            if file.id not in seen:
                seen[file.id] = type("Ancestor", (), {"trashed": file.is_trashed_itself, "file": file})
                open_ += file.parent_files
        return list(seen.values())

    @property
    def drive_id(self):
        ids = [self.id] + [ancestor.file.id for ancestor in self._ancestors()]
        return next((id_ for id_ in ids if id_ in self.drive.shared_drives), None)

    def is_google_type(self):
        return self.mime_type.startswith(APPS)

    def full_text(self):
        parts = [self.name, self.description or ""]
        if isinstance(self.content, str):
            parts.append(self.content)
        elif isinstance(self.content, dict):
            parts += [str(cell) for rows in self.content.values() for row in rows for cell in row]
        return "\n".join(parts)

    def stored(self):
        return self.content if isinstance(self.content, bytes) else self.content.encode()

    def export(self, mime_type):
        """Returns the bytes of an export as Drive makes them; the PDF is none."""
        if self.mime_type == SPREADSHEET:
            if mime_type == WORKBOOK:
                return _workbook(self.content)
            rows = next(iter(self.content.values()))
            return "\r\n".join(",".join(str(cell) for cell in row) for row in rows).encode()
        if self.mime_type == DRAWING:
            return PNG if mime_type == "image/png" else b"<svg xmlns='http://www.w3.org/2000/svg'/>"
        if mime_type == "text/plain":
            # With a byte order mark and carriage returns, and without images, as Drive does.
            lines = [line for line in self.content.split("\n") if "]: <data:" not in line]
            return b"\xef\xbb\xbf" + "\r\n".join(lines).encode()
        return self.content.encode()

    def resource(self):
        """Returns all fields of the file, as far as there are any here."""
        fields = {
            "kind": "drive#file",
            "id": self.id,
            "name": self.name,
            "mimeType": self.mime_type,
            "trashed": self.trashed,
            "explicitlyTrashed": self.is_trashed_itself,
            "starred": self.starred,
            "parents": self.parents,
            "createdTime": "2026-01-01T00:00:00.000Z",
            "modifiedTime": self.modified_time,
            "version": "1",
            "webViewLink": f"https://drive.google.com/file/d/{self.id}/view",
            "description": self.description,
            "driveId": self.drive_id,
        }
        if self.target:
            target = self.drive.files.get(self.target)
            kind = target.mime_type if target else "application/octet-stream"
            fields["shortcutDetails"] = {"targetId": self.target, "targetMimeType": kind}
        elif not self.is_google_type():
            fields["size"] = str(len(self.stored()) if self.lie is None else self.lie)
        elif self.mime_type != FOLDER:
            # Documents have a size, too, which says nothing of their exports.
            fields["size"] = "1024"
        return {key: value for key, value in fields.items() if value is not None}


def _workbook(sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    bytes_ = io.BytesIO()
    book.save(bytes_)
    return bytes_.getvalue()


class Drive:
    """The files that an account sees."""

    def __init__(self):
        self.files, self.shared_drives = {}, {}
        # One entry for each change: the id of the file, or of a shared drive.
        self.changes = []
        self._time = 1_780_000_000_000
        # Page tokens of an earlier epoch have expired.
        self.epoch = 0

    def tick(self):
        self._time += 1000
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self._time / 1000))

    def create(self, given):
        self.files[given["id"]] = File(self, given)
        self.changes.append(given["id"])

    def create_shared_drive(self, given):
        self.shared_drives[given["id"]] = given["name"]
        # The root folder has the id of the drive, and this name.
        self.create({"id": given["id"], "name": "Drive", "mimeType": FOLDER})

    def update(self, given):
        self.files[given["id"]].update(given)
        self.changes.append(given["id"])

    def remove(self, id_):
        """Deletes a file, or takes the account's access away: for the account both look the same."""
        del self.files[id_]
        self.changes.append(id_)

    def select(self, q, corpora, drive_id, shared):
        """Returns the files that match, in order of their creation."""
        condition = query.parse(q) if q else lambda file: True
        files = [file for file in self.files.values() if shared or file.drive_id is None]
        if corpora == "drive":
            files = [file for file in files if file.drive_id == drive_id]
        # A shared drive itself is no result.
        return [file for file in files if condition(file) and file.id not in self.shared_drives]
