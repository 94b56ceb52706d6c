"""What is read back is what was written, or an error says why not."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from oryx_marl.errors import OryxError
from oryx_marl.runs.checkpoint import Checkpoint, restore, save, updates

TREE = {
    "weights": (jnp.linspace(-1, 1, 700).reshape(7, 100), jnp.zeros(3)),
    "count": jnp.array(5, jnp.int32),
}


def equal(a: dict, b: dict) -> bool:
    pairs = zip([*a["weights"], a["count"]], [*b["weights"], b["count"]], strict=True)
    return all(
        np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y) for x, y in pairs
    )


def test_round_trip_and_newest_wins(tmp_path: Path) -> None:
    for update in (0, 10, 20):
        tree = {**TREE, "count": jnp.array(update, jnp.int32)}
        save(tmp_path / "c", Checkpoint(update, tree, {"elapsed": 1.5}))
    assert updates(tmp_path / "c") == [10, 20]
    found = restore(tmp_path / "c", TREE)
    assert (found.update, found.extra) == (20, {"elapsed": 1.5})
    assert equal(found.tree, {**TREE, "count": jnp.array(20, jnp.int32)})
    assert restore(tmp_path / "c", TREE, update=10).update == 10


def test_arrays_that_claim_far_more_than_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "c", Checkpoint(1, {"a": jnp.zeros(300_000)}, {}))
    assert restore(tmp_path / "c", {"a": jnp.zeros(300_000)}).update == 1
    monkeypatch.setattr("oryx_marl.limits.LEAST_BYTES", 1_000)
    monkeypatch.setattr("oryx_marl.limits.MOST_TIMES_STORED", 20)
    with pytest.raises(OryxError, match=r"claims 1,200,000 bytes, but only .* --allow-large"):
        restore(tmp_path / "c", {"a": jnp.zeros(300_000)})
    monkeypatch.setenv("ORYX_ALLOW_LARGE", "1")
    assert restore(tmp_path / "c", {"a": jnp.zeros(300_000)}).update == 1


def test_missing_and_misfitting(tmp_path: Path) -> None:
    with pytest.raises(OryxError, match="no checkpoint"):
        restore(tmp_path, TREE)
    save(tmp_path, Checkpoint(1, TREE, {}))
    for other in ({**TREE, "count": jnp.zeros(2, jnp.int32)}, {"count": TREE["count"]}):
        with pytest.raises(OryxError, match="does not fit"):
            restore(tmp_path, other)


def damages(content: bytes) -> dict[str, bytes]:
    middle = len(content) // 2
    flips = {
        f"flip {at}": content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]
        for at in sorted({0, middle // 2, middle, middle + middle // 2, len(content) - 1})
        if 0 <= at < len(content)
    }
    return {"empty": b"", "half": content[:middle], **flips}


# Orbax leaves futures behind when a read fails; the error itself reaches us.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_damage_of_every_file_is_noticed(tmp_path: Path) -> None:
    save(tmp_path, Checkpoint(3, TREE, {"elapsed": 2.0}))
    files = [path for path in sorted((tmp_path / "3").rglob("*")) if path.is_file()]
    assert len(files) >= 3
    refused = 0
    for path in files:
        content = path.read_bytes()
        for damaged in [*damages(content).values(), None]:
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            try:
                found = restore(tmp_path, TREE)
            except OryxError:
                refused += 1
            else:
                assert equal(found.tree, TREE)
                assert found.extra == {"elapsed": 2.0}
        path.write_bytes(content)
    assert refused > len(files)
    assert equal(restore(tmp_path, TREE).tree, TREE)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from oryx_marl.errors import OryxError
from oryx_marl.runs.checkpoint import Checkpoint, restore, save, updates
folder = Path(sys.argv[1])
tree = {"weights": np.random.default_rng(0).normal(size=(300, 300))}
save(folder, Checkpoint(1, tree, {}))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    save(folder, Checkpoint(2, tree, {}))
except OryxError as error:
    print(error)
else:
    sys.exit("the write should have failed")
found = restore(folder, tree)
assert found.update == 1 and np.array_equal(found.tree["weights"], tree["weights"])
assert updates(folder) == [1]
print("earlier one intact")
"""


def test_a_full_disk_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    assert hasattr(resource, "RLIMIT_FSIZE")
    assert hasattr(signal, "SIGXFSZ")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "could not write checkpoint" in done.stdout
    assert "earlier one intact" in done.stdout


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OryxError, match="could not write checkpoint"):
        save(tmp_path / "file" / "checkpoints", Checkpoint(1, TREE, {}))
