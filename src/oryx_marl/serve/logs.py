"""Log lines that cannot be forged: one event is one line, without what a terminal obeys."""

import logging

from oryx_marl import texts


class OneLine(logging.Formatter):
    """Writes newlines and control characters as Python writes them; so too in stacks."""

    def format(self, record: logging.LogRecord) -> str:
        return texts.plain(super().format(record).replace("\n", " | "))


def set_up() -> None:
    """Events of the server, and what goes wrong inside uvicorn, on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("oryx_marl.serve", logging.INFO), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
