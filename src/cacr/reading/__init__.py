"""The border: bytes and text that somebody else wrote become typed values here, or one error that names the file.

Every file from outside is read through the functions of this package. They open regular files only, look at sizes
before they ask for memory, execute nothing, and turn whatever a parser raises into a
:class:`cacr.errors.UserError`.
"""
