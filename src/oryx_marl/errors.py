"""The exception and the warning that are meant for people: their text says what to do."""


class OryxError(Exception):
    """Something the user can correct; the command line prints the text and exits non-zero."""


class OryxWarning(UserWarning):
    """Something the user should know; the command line prints the text and goes on."""
