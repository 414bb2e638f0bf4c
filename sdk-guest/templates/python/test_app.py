"""The provider outside of a component."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from app import provider
from mcp_host_provider import Config, Contents, Internal, NotFound


class FilesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "a.md").write_text("one\ntwo\nthree\n")
        (self.folder / "b.bin").write_bytes(b"\xff\x00")
        self.files = provider.open(Config({"dir": folder.name, "lines": 2}))

    def body(self, path: str) -> str | bytes:
        [contents] = self.files.read(path)  # type: ignore[misc]
        assert isinstance(contents, Contents)
        return contents.body

    def test_files_are_listed_and_read(self) -> None:
        self.assertEqual([entry.name for entry in self.files.list_entries(None, None, 10).entries], ["a.md", "b.bin"])
        self.assertEqual(self.body("b.bin"), b"\xff\x00")
        self.assertEqual(self.body("first/a.md"), "one\ntwo\n")
        with self.assertRaises(NotFound):
            self.files.read("c.md")
        self.assertEqual(self.files.complete("first/{name}", "name", "a", {}).values, ["a.md"])

    def test_a_folder_that_is_not_granted_is_a_fault_of_the_config(self) -> None:
        files = provider.open(Config({"dir": str(self.folder / "missing" / "folder")}))
        with self.assertRaisesRegex(Internal, "grants.dirs"):
            files.list_entries(None, None, 10)

    def test_a_file_that_is_written_is_reported(self) -> None:
        watched = ["first/a.md", "b.bin"]
        start = self.files.changes(watched, None)
        self.assertEqual(self.files.changes(watched, start.token), start)
        (self.folder / "a.md").write_text("changed\n")
        later = self.files.changes(watched, start.token)
        self.assertEqual((later.changed, later.listing_changed), (("first/a.md",), True))


if __name__ == "__main__":
    unittest.main()
