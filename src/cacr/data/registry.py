"""The sources by name, and what each is asked for."""

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
    """What a source is opened with.

    Attributes:
        spec: the data as the user wrote it, for messages.
        argument: what follows the colon in ``name:argument``, or the whole path; empty where there is none.
        part: the images wanted.
        root: the folder under which named sets are kept.
        download: whether the network may be used.
    """

    spec: str
    argument: str
    part: Part
    root: Path
    download: bool

    def set_folder(self) -> Path:
        """The folder of a named set: ``root``, unless the user wrote ``name:FOLDER``."""
        return user_path(self.argument) if self.argument else self.root

    def path(self) -> Path:
        """The argument as a path."""
        if not self.argument:
            name = self.spec.rstrip(":")
            raise UserError(f"{name} needs a path; write {name}:PATH")
        return user_path(self.argument)

    def folder(self) -> Path:
        """The argument as a folder that exists."""
        path = self.path()
        kind = kind_of(path)
        if kind is None:
            raise UserError(f"there is no folder {path}")
        if kind != "folder":
            raise UserError(f"{path} is not a folder")
        return path

    def file(self) -> Path:
        """The argument as a file that exists."""
        path = self.path()
        require_file(path)
        return path

    def missing_part(self, why: str) -> MissingPartError:
        """The error for a part that the source does not have."""
        return MissingPartError(f"{self.spec} has no {self.part} part: {why}")


SOURCES: Registry[Callable[[Request], Source]] = Registry("source")
