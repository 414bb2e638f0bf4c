"""Walks through a Drive with Google's own client, and prints what it found as JSON. It is run against the stand-in, so that a
difference between that and the client's expectations is an error.

  python walk.py URL KEY_FILE FOLDER

It lists the files below the folder, gets the content of each (by ranges, or exported), and reads the changes to the end.
"""

import io
import json
import sys

from google.oauth2 import service_account
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from googleapiclient.http import MediaIoBaseDownload

APPS = "application/vnd.google-apps."
EXPORTS = {"document": "text/markdown", "spreadsheet": "text/csv", "presentation": "text/plain", "drawing": "image/png"}


def main():
    url, key_file, folder = sys.argv[1:]
    scopes = ["https://www.googleapis.com/auth/drive.readonly"]
    credentials = service_account.Credentials.from_service_account_file(key_file, scopes=scopes)
    drive = build(
        "drive", "v3", credentials=credentials, static_discovery=True, client_options={"api_endpoint": url + "/drive/v3/"}
    )
    formats = drive.about().get(fields="exportFormats").execute()["exportFormats"]
    found, folders = {}, [folder]
    while folders:
        q = f"'{folders.pop()}' in parents and trashed = false"
        request = drive.files().list(
            q=q,
            pageSize=2,
            supportsAllDrives=True,
            includeItemsFromAllDrives=True,
            fields="nextPageToken,files(id,name,mimeType,size,parents,modifiedTime)",
        )
        while request is not None:
            page = request.execute()
            for file in page["files"]:
                if file["mimeType"] == APPS + "folder":
                    folders.append(file["id"])
                else:
                    found[file["id"]] = {**file, "content": content(drive, file, formats)}
            request = drive.files().list_next(request, page)
    token = drive.changes().getStartPageToken().execute()["startPageToken"]
    changes = drive.changes().list(pageToken="1", pageSize=1000, includeRemoved=True, fields="*").execute()
    refused = []
    for request in (
        drive.files().get(fileId="no-such-file"),
        drive.files().list(q="name like 'x'"),
        drive.files().list(q="fullText contains 'x'", orderBy="name"),
        drive.files().list(fields="files(nothing)"),
        drive.files().export(fileId=folder, mimeType="text/plain"),
        drive.changes().list(pageToken="none"),
    ):
        try:
            request.execute()
        except HttpError as error:
            refused.append([error.status_code, error.error_details[0]["reason"]])
    print(json.dumps({"files": found, "changes": len(changes["changes"]), "token": token, "refused": refused}))


def content(drive, file, formats):
    kind = file["mimeType"]
    if kind.startswith(APPS):
        target = EXPORTS.get(kind.removeprefix(APPS))
        if target is None:
            return None
        assert target in formats[kind], (kind, formats)
        return drive.files().export(fileId=file["id"], mimeType=target).execute().decode("utf-8", "replace")
    # In ranges of a MiB.
    target = io.BytesIO()
    download = MediaIoBaseDownload(target, drive.files().get_media(fileId=file["id"]), chunksize=1024 * 1024)
    done = int(file["size"]) == 0
    while not done:
        _, done = download.next_chunk()
    return target.getvalue().decode("utf-8", "replace")


main()
