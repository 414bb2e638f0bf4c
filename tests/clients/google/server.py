"""A stand-in for Google Drive on a loopback port, for one test.

  python server.py OPTIONS

OPTIONS is an object of JSON:

  key_file  where the key of a service account is written, as Google hands it out
  token     an access token that is valid from the beginning and never expires, or null
  lifetime  of other access tokens, in seconds
  commands  commands to begin with

It has the token endpoint of OAuth (RFC 7523, RS256), and of Drive's API, version 3: about, drives.get, files.list, files.get with
`alt=media` and ranges, files.export, changes.getStartPageToken and changes.list. Requests are refused, and answers checked before
they are sent, by the discovery document of the API; an answer that is not of its schema is a line `INVALID …`.

It prints a line for each request, `GET /drive/v3/files?… 200`, after `listening on http://127.0.0.1:PORT`. Each line of standard
input is a command, an object of JSON with `do`, and is answered by a line `done`:

  create, update  the members are those of `state.File`
  drive           a shared drive: id, name
  remove          id: deleted, or access to it lost
  fail            the next `count` requests whose path begins with `path` fail with `status`, `reason`, `retry_after`;
                  or break off after `break` bytes of their body
  expire          `what`: "tokens" or "pages"
  lifetime        `seconds`, of access tokens to come
  revoke          the key of the service account
  clock           `seconds` by which the server's clock is ahead

It exits at the end of its input.
"""

import base64
import hashlib
import json
import os
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import discovery
import oauth
import query
import state

DEFAULT_FIELDS = {
    "File": "kind,id,name,mimeType",
    "FileList": "kind,incompleteSearch,nextPageToken,files(kind,id,name,mimeType)",
    "ChangeList": "kind,nextPageToken,newStartPageToken,changes(kind,changeType,time,removed,fileId,file(kind,id,name,mimeType))",
    "Drive": "kind,id,name",
    "StartPageToken": "*",
}


class Refused(Exception):
    """An error of the API."""

    def __init__(self, status, reason, message, domain="global", headers=None):
        super().__init__(message)
        self.status, self.reason, self.domain, self.headers = status, reason, domain, headers or {}

    def body(self):
        error = {"domain": self.domain, "reason": self.reason, "message": str(self)}
        return {"error": {"code": self.status, "message": str(self), "errors": [error]}}


class Server:
    """The state of the server. Requests and commands hold the lock."""

    def __init__(self, options, url):
        self.lock = threading.Lock()
        self.drive, self.failures = state.Drive(), []
        self.tokens = oauth.TokenEndpoint(url + "/token", options["lifetime"])
        if options.get("token"):
            self.tokens.accept(options["token"])
        if options.get("key_file"):
            with open(options["key_file"], "w", encoding="utf-8") as file:
                json.dump(self.tokens.service_account_key(), file)
        for command in options.get("commands", []):
            self.command(command)

    def command(self, command):
        do = command.pop("do")
        if do == "create":
            self.drive.create(command)
        elif do == "drive":
            self.drive.create_shared_drive(command)
        elif do == "update":
            self.drive.update(command)
        elif do == "remove":
            self.drive.remove(command["id"])
        elif do == "fail":
            self.failures.append(command)
        elif do == "expire" and command["what"] == "tokens":
            self.tokens.expire_all()
        elif do == "expire":
            self.drive.epoch += 1
        elif do == "lifetime":
            self.tokens.lifetime = command["seconds"]
        elif do == "revoke":
            self.tokens.is_key_revoked = True
        elif do == "clock":
            self.tokens.clock_offset = command["seconds"]
        else:
            raise ValueError(do)

    def failure(self, path):
        """Returns the failure that a request is to have."""
        for failure in self.failures:
            if path.startswith(failure["path"]) and failure["count"] > 0:
                failure["count"] -= 1
                return failure
        return None

    # The methods return the name of a schema and its value, or bytes and their type.

    def about(self, parameters):
        if "fields" not in parameters:
            raise Refused(400, "required", "The 'fields' parameter is required for this method.")
        return "About", {"kind": "drive#about", "exportFormats": state.EXPORT_FORMATS}

    def drive_get(self, parameters, id_):
        if id_ not in self.drive.shared_drives:
            raise Refused(404, "notFound", f"Shared drive not found: {id_}")
        return "Drive", {"kind": "drive#drive", "id": id_, "name": self.drive.shared_drives[id_]}

    def file(self, parameters, id_):
        id_ = "my-root" if id_ == "root" else id_
        file = self.drive.files.get(id_)
        if file is None or file.drive_id and parameters.get("supportsAllDrives", "true") != "true":
            raise Refused(404, "notFound", f"File not found: {id_}.")
        return file

    def file_get(self, parameters, id_):
        file = self.file({"supportsAllDrives": "false", **parameters}, id_)
        if parameters.get("alt") != "media":
            return "File", file.resource()
        if file.is_google_type():
            message = "Only files with binary content can be downloaded. Use Export with Docs Editors files."
            raise Refused(403, "fileNotDownloadable", message)
        return file.stored(), file.mime_type

    def file_export(self, parameters, id_):
        file = self.file(parameters, id_)
        if not file.is_google_type():
            raise Refused(403, "fileNotExportable", "Export only supports Docs Editors files.")
        if parameters.get("mimeType") not in state.EXPORT_FORMATS.get(file.mime_type, []):
            raise Refused(400, "badRequest", "The requested conversion is not supported.")
        content = file.export(parameters["mimeType"])
        if len(content) > state.MAX_EXPORT:
            raise Refused(403, "exportSizeLimitExceeded", "This file is too large to be exported.")
        return content, parameters["mimeType"]

    def file_list(self, parameters):
        q, order = parameters.get("q", ""), parameters.get("orderBy")
        corpora, drive_id = parameters.get("corpora", "user"), parameters.get("driveId")
        shared = parameters.get("includeItemsFromAllDrives") == "true"
        if shared and parameters.get("supportsAllDrives") != "true":
            raise Refused(403, "teamDrivesParentLimit", "The supportsAllDrives parameter is required.")
        if (corpora == "drive") != (drive_id is not None) or corpora in ("drive", "allDrives") and not shared:
            raise Refused(400, "invalid", "The corpora, driveId and includeItemsFromAllDrives parameters do not fit.")
        if corpora == "drive" and drive_id not in self.drive.shared_drives:
            raise Refused(404, "notFound", f"Shared drive not found: {drive_id}")
        if order and query.has_full_text(q):
            raise Refused(403, "forbidden", "Sorting is not supported for queries with fullText terms.")
        try:
            files = self.drive.select(q, corpora, drive_id, shared)
        except query.Invalid as error:
            raise Refused(400, "invalid", "Invalid Value") from error
        for key in reversed((order or "").split(",")):
            keys = {"name": lambda file: file.name, "folder": lambda file: file.mime_type != state.FOLDER, "": lambda _: 0}
            if key not in keys:
                raise Refused(400, "invalid", f"Invalid field selection {key}")
            files.sort(key=keys[key])
        of_query = hashlib.sha256(json.dumps([q, order, corpora, drive_id, self.drive.epoch]).encode()).hexdigest()[:12]
        start, size = 0, int(parameters.get("pageSize", 100))
        if "pageToken" in parameters:
            try:
                known, start = json.loads(base64.urlsafe_b64decode(parameters["pageToken"]))
            except ValueError:
                known = None
            if known != of_query:
                raise Refused(400, "invalid", "Invalid Value")
        list_ = {"kind": "drive#fileList", "incompleteSearch": False}
        list_["files"] = [file.resource() for file in files[start : start + size]]
        if start + size < len(files):
            token = json.dumps([of_query, start + size]).encode()
            list_["nextPageToken"] = base64.urlsafe_b64encode(token).decode()
        return "FileList", list_

    def start_page_token(self, parameters):
        return "StartPageToken", {"kind": "drive#startPageToken", "startPageToken": str(len(self.drive.changes) + 1)}

    def change_list(self, parameters):
        token, size = parameters.get("pageToken", ""), int(parameters.get("pageSize", 100))
        if not token.isdigit() or not 1 <= int(token) <= len(self.drive.changes) + 1:
            raise Refused(400, "invalid", "Invalid Value")
        first = int(token) - 1
        part = self.drive.changes[first : first + size]
        changes = []
        for index, id_ in enumerate(part):
            # Of several changes of a file only the last is told.
            if id_ in part[index + 1 :]:
                continue
            file = self.drive.files.get(id_)
            if file and file.drive_id and parameters.get("includeItemsFromAllDrives") != "true":
                continue
            change = {"kind": "drive#change", "changeType": "file", "fileId": id_, "removed": file is None}
            change["time"] = "2026-01-01T00:00:00.000Z"
            if file:
                change["file"] = file.resource()
            changes.append(change)
        list_ = {"kind": "drive#changeList", "changes": changes}
        behind = first + len(part) + 1
        key = "nextPageToken" if behind <= len(self.drive.changes) else "newStartPageToken"
        return "ChangeList", {**list_, key: str(behind)}

    def route(self, path):
        """Returns the id of a method, and the function."""
        parts = path.removeprefix("/drive/v3/").split("/")
        if not path.startswith("/drive/v3/"):
            raise Refused(404, "notFound", "Not Found")
        match parts:
            case ["about"]:
                return "about.get", self.about
            case ["drives", id_]:
                return "drives.get", lambda parameters: self.drive_get(parameters, id_)
            case ["files"]:
                return "files.list", self.file_list
            case ["files", id_]:
                return "files.get", lambda parameters: self.file_get(parameters, id_)
            case ["files", id_, "export"]:
                return "files.export", lambda parameters: self.file_export(parameters, id_)
            case ["changes", "startPageToken"]:
                return "changes.getStartPageToken", self.start_page_token
            case ["changes"]:
                return "changes.list", self.change_list
        raise Refused(404, "notFound", "Not Found")

    def answer(self, path, parameters, authorization):
        """Returns the answer to a request with a valid token: bytes and their type."""
        if not self.tokens.is_valid(authorization):
            message = "Request had invalid authentication credentials."
            raise Refused(401, "authError", message, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})
        name, method = self.route(path)
        try:
            discovery.check_parameters(name, {key: value for key, value in parameters.items() if key != "alt"})
            answer, value = method(parameters)
            if isinstance(answer, bytes):
                return answer, value
            discovery.check(answer, value)
            selected = discovery.select(answer, value, parameters.get("fields") or DEFAULT_FIELDS[answer])
        except discovery.Invalid as error:
            if str(error).startswith("$"):
                say(f"INVALID {path}: {error}")
            raise Refused(400, "invalidParameter", str(error)) from error
        return json.dumps(selected).encode(), "application/json; charset=UTF-8"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: Server

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        parameters = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        headers, breaks = {}, None
        with self.server_state.lock:
            failure = self.server_state.failure(url.path)
            try:
                if failure and "status" in failure:
                    headers = {"Retry-After": str(failure["retry_after"])} if "retry_after" in failure else {}
                    reason = failure.get("reason", "backendError")
                    raise Refused(failure["status"], reason, failure.get("message", reason), "usageLimits", headers)
                breaks = failure and failure.get("break")
                body, kind = self.server_state.answer(url.path, parameters, self.headers.get("Authorization", ""))
                status = 200
                if parameters.get("alt") == "media" and self.headers.get("Range"):
                    status, body, headers = self.part(body)
            except Refused as error:
                status, body, headers, kind = error.status, json.dumps(error.body()).encode(), error.headers, "application/json"
        self.reply(status, body, kind, headers, breaks)

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        form = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
        with self.server_state.lock:
            failure = self.server_state.failure(self.path) if self.path == "/token" else {"status": 404}
            if failure:
                status, body = failure["status"], {"error": failure.get("reason", "server_error")}
            else:
                status, body = self.server_state.tokens.grant(form)
        self.reply(status, json.dumps(body).encode(), "application/json", {}, None)

    def part(self, body):
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last) if last else len(body) - 1, len(body) - 1)
        if first >= len(body):
            message = "Request range not satisfiable"
            headers = {"Content-Range": f"bytes */{len(body)}"}
            raise Refused(416, "requestedRangeNotSatisfiable", message, headers=headers)
        return 206, body[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(body)}"}

    def reply(self, status, body, kind, headers, breaks):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        say(f"{self.command} {self.path} {status}" + (f" {self.headers['Range']}" if self.headers.get("Range") else ""))
        self.end_headers()
        if breaks is not None and breaks < len(body):
            self.close_connection = True
            body = body[:breaks]
        self.wfile.write(body)

    def log_message(self, *_):
        """Requests are told by `reply`."""


def say(line):
    print(line, flush=True)


def main():
    options = json.loads(sys.argv[1])
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{http.server_address[1]}"
    Handler.server_state = Server(options, url)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, daemon=True).start()
    say(f"listening on {url}")
    for line in sys.stdin:
        with Handler.server_state.lock:
            Handler.server_state.command(json.loads(line))
        say("done")
    os._exit(0)


main()
