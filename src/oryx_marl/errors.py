"""The one exception that is meant for people: its text says what, where and what to do."""


class OryxError(Exception):
    """Something the user can mend; the command line prints the text and exits non-zero."""
