"""Read files and text from outside: return typed values, or raise one error that names the file.

Every file from outside is read by the functions of this package. They open only regular files, check sizes before they
allocate memory, execute nothing, and turn any error of a parser into a :class:`cacr.errors.UserError`.
"""
