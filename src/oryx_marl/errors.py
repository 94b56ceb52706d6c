"""The exceptions and the warning that are meant for people: their text says what to do."""


class OryxError(Exception):
    """Something the user can correct; the command line prints the text and exits with 1."""


class UnknownNameError(OryxError):
    """A name or folder that stands for nothing; the command line exits with 2, as for a typo."""


class StoppedError(OryxError):
    """The user stopped the run; everything up to here is in a checkpoint."""

    def __init__(
        self, what: str, how_to_go_on: str = "continue with the same command and --resume"
    ) -> None:
        super().__init__(f"{what}; nothing is lost: {how_to_go_on}")
        self.what = what


class OryxWarning(UserWarning):
    """Something the user should know; the command line prints the text and goes on."""
