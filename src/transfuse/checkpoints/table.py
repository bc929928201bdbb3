"""The table of formats: a new one is a file beside this that ends with its row, and a line here."""

from __future__ import annotations

from .export_archive import FORMAT as EXPORT_ARCHIVE
from .format import Format
from .hugging_face_folder import FORMAT as HUGGING_FACE_FOLDER
from .pytorch_file import FORMAT as PYTORCH_FILE
from .safetensors_file import FORMAT as SAFETENSORS_FILE
from .sharded_files import FORMAT as SHARDED_FILES

# The first row that recognises a file opens it. Files of `torch.save` come last: they have no ending of their own, and
# whatever is no such file is refused there.
FORMATS: tuple[Format, ...] = (HUGGING_FACE_FOLDER, SHARDED_FILES, SAFETENSORS_FILE, EXPORT_ARCHIVE, PYTORCH_FILE)
