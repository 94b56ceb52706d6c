"""The exception that is meant for people: its text says what to do."""


class OryxError(Exception):
    """Something the user can correct."""
