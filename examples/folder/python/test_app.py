"""The provider outside of a component."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from app import file, first_lines, provider
from mcp_host_provider import Config, Contents, Internal, NotFound


class FolderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.directory = Path(folder.name)
        for name in ("a b.md", "b.txt", "c.bin"):
            (self.directory / name).write_bytes(b"1\n2\n3\n")
        self.folder = provider.open(Config({"dir": folder.name}))

    def body(self, path: str) -> str | bytes:
        [contents] = self.folder.read(path)  # type: ignore[misc]
        assert isinstance(contents, Contents)
        return contents.body

    def test_files_are_listed_by_pages_and_read(self) -> None:
        first = self.folder.list_entries(None, None, 2)
        second = self.folder.list_entries(None, first.next_cursor, 2)
        paths = [entry.path for entry in [*first.entries, *second.entries]]
        self.assertEqual((paths, second.next_cursor), (["a%20b.md", "b.txt", "c.bin"], None))
        self.assertEqual([self.body(path) for path in paths], ["1\n2\n3\n"] * 3)
        self.assertEqual(self.body("first/a%20b.md?lines=2"), "1\n2\n")
        for path in ("missing", "first/missing", "first/..%2Fsecret"):
            with self.assertRaises(NotFound):
                self.folder.read(path)

    def test_a_function_can_be_called(self) -> None:
        self.assertEqual(file(Path("b.txt")), self.directory / "b.txt")
        self.assertEqual(first_lines(Path("b.txt"), lines=1), "1\n")

    def test_names_are_completed_and_changes_reported(self) -> None:
        self.assertEqual(self.folder.complete("first/{name}{?lines}", "name", "a", {}).values, ["a b.md"])
        watched = ["b.txt", "first/b.txt?lines=1", "c.bin"]
        start = self.folder.changes(watched, None)
        (self.directory / "b.txt").write_text("changed\n")
        later = self.folder.changes(watched, start.token)
        self.assertEqual((later.changed, later.listing_changed), (("b.txt", "first/b.txt?lines=1"), True))

    def test_a_folder_that_is_not_granted_is_a_fault_of_the_config(self) -> None:
        folder = provider.open(Config({"dir": str(self.directory / "missing" / "folder")}))
        with self.assertRaisesRegex(Internal, "grants.dirs"):
            folder.list_entries(None, None, 10)


if __name__ == "__main__":
    unittest.main()
