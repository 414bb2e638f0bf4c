"""The provider outside of a component."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from app import Csv
from csv_text import records, write
from mcp_host_provider import Config, Contents, InvalidRequest, NotFound


class CsvTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "a.csv").write_text("x,y\n1,2\n3,4\n5,6\n")
        self.csv = Csv(Config({"dir": folder.name, "max-rows": 2}))

    def text(self, path: str) -> str | bytes:
        contents = self.csv.read(path)
        assert isinstance(contents, Contents)
        return contents.body

    def test_rows_and_columns_of_a_file_are_read(self) -> None:
        self.assertEqual(self.text("a.csv/rows?from=2&columns=y,x"), "y,x\n4,3\n6,5\n")
        self.assertEqual(self.text("a.csv/rows"), "x,y\n1,2\n3,4\n")
        with self.assertRaises(InvalidRequest):
            self.text("a.csv/rows?from=0")
        with self.assertRaises(NotFound):
            self.text("b.csv/rows")

    def test_a_file_that_is_written_is_reported(self) -> None:
        watched = ["a.csv", "b.csv/rows"]
        start = self.csv.changes(watched, None)
        self.assertEqual(self.csv.changes(watched, start.token), start)
        (self.folder / "b.csv").write_text("x\n")
        later = self.csv.changes(watched, start.token)
        self.assertEqual((later.changed, later.listing_changed), (("b.csv/rows",), True))

    def test_csv_is_read_leniently_and_written_strictly(self) -> None:
        self.assertEqual(list(records('\ufeffa,b\r\n\n"x, ""y""",\n')), [["a", "b"], ['x, "y"', ""]])
        self.assertEqual(list(records('"a"b,c"d"\na,"b')), [["ab", 'c"d"'], ["a", "b"]])
        self.assertEqual(list(records(write(["a,b", '"', "", "x\ny"]))), [["a,b", '"', "", "x\ny"]])


if __name__ == "__main__":
    unittest.main()
