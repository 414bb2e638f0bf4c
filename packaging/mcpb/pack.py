"""Packs a directory into a zip file whose bytes depend on the names, contents and modes of its files only.

    python pack.py DIRECTORY FILE SECONDS

SECONDS is the time of all files.
"""

import os
import sys
import time
import zipfile

directory, archive, seconds = sys.argv[1:]
# The first time that the format can express.
date = max(time.gmtime(int(seconds))[:6], (1980, 1, 1, 0, 0, 0))
names = sorted(
    os.path.relpath(os.path.join(folder, file), directory) for folder, _, files in os.walk(directory) for file in files
)
with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
    for name in names:
        path = os.path.join(directory, name)
        entry = zipfile.ZipInfo(name, date)
        entry.create_system = 3  # Unix: the mode counts.
        entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
        with open(path, "rb") as file:
            packed.writestr(entry, file.read(), zipfile.ZIP_DEFLATED, 9)
