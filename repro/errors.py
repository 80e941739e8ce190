"""Errors that the command line shows as one line instead of a traceback."""


class UserError(Exception):
    """Something that the user can mend; the message says what was expected."""
