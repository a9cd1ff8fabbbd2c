"""Sources by name, and the request that opens one."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cacr.data.errors import MissingPartError
from cacr.data.source import Source
from cacr.errors import UserError
from cacr.reading.files import kind_of, require_file, user_path
from cacr.registry import Registry

Part = Literal["pretrain", "train", "test"]


@dataclass(frozen=True)
class Request:
    """Arguments for opening a source.

    Attributes:
        spec: the data as the user wrote it, for messages.
        argument: the text after the colon in ``name:argument``, or the whole path; empty if there is none.
        part: the part of the images.
        root: the folder of named data sets.
        download: whether downloads are allowed.
    """

    spec: str
    argument: str
    part: Part
    root: Path
    download: bool

    def set_folder(self) -> Path:
        """The folder of a named data set: that of ``name:FOLDER``, else ``root``."""
        return user_path(self.argument) if self.argument else self.root

    def path(self) -> Path:
        """The argument as a path."""
        if not self.argument:
            name = self.spec.rstrip(":")
            raise UserError(f"{name} needs a path; write {name}:PATH")
        return user_path(self.argument)

    def folder(self) -> Path:
        """The argument as an existing folder."""
        path = self.path()
        kind = kind_of(path)
        if kind is None:
            raise UserError(f"there is no folder {path}")
        if kind != "folder":
            raise UserError(f"{path} is not a folder")
        return path

    def file(self) -> Path:
        """The argument as an existing file."""
        path = self.path()
        require_file(path)
        return path

    def missing_part(self, why: str) -> MissingPartError:
        """The error for a part that the source does not have."""
        return MissingPartError(f"{self.spec} has no {self.part} part: {why}")


SOURCES: Registry[Callable[[Request], Source]] = Registry("source")
