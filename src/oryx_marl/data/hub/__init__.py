"""Published datasets: download, verify, unpack."""
