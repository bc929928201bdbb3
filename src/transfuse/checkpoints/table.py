"""The table of formats: a new one is a file beside this that ends with its row, and a line here."""

from __future__ import annotations

from . import export_archive, hugging_face_folder, pytorch_file, safetensors_file, sharded_files
from .format import Format

# The first row that recognises a file opens it. Files of `torch.save` come last: they have no ending of their own, and
# whatever is no such file is refused there.
FORMATS: tuple[Format, ...] = (
    hugging_face_folder.FORMAT,
    sharded_files.FORMAT,
    safetensors_file.FORMAT,
    export_archive.FORMAT,
    pytorch_file.FORMAT,
)
