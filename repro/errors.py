"""Errors that the command line shows as one line instead of a traceback."""


class UserError(Exception):
    """Error that the user can correct; the message says what was expected."""
