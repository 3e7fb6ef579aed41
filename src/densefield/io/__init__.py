"""Files: atomic writing, reading untrusted input within size limits, listing folders, downloads.

Arrays and size limits, which need NumPy, are in `densefield.io.untrusted`; downloads are in `densefield.io.download`.
"""

from densefield.io.files import open_atomically as open_atomically
from densefield.io.files import read_json as read_json
from densefield.io.files import write_atomically as write_atomically
from densefield.io.folders import list_files as list_files
from densefield.io.folders import path_inside as path_inside
from densefield.io.messages import failure_line as failure_line
from densefield.io.messages import printable as printable
from densefield.io.progress import Progress as Progress
