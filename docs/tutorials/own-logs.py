# %% [markdown]
# # From your own logs to a served policy
#
# You have a table of what several agents saw, did and got, and nothing else. This notebook learns
# a policy from such a table, asks what it is worth before it acts, and serves it over HTTP. It
# takes about two minutes on two CPU cores and needs no network.
#
# In a checkout: `pip install -e '.[export,serve,sources]' ./runtime`, and Jupyter to run it
# yourself.

# %%
import csv
import os
import re
import secrets
import subprocess
import sys
import tempfile

import numpy as np

import oryx_marl as oryx
import oryx_marl_runtime

os.environ.pop("FORCE_COLOR", None)  # commands print plain text
os.chdir(tempfile.mkdtemp(prefix="own-logs-"))  # all files go here; choose a folder of your own

# %% [markdown]
# ## 1. A log
#
# A depot has three vans and two docks. Every minute each van waits, charges, or drives to a dock.
# A van that is alone at a dock takes a parcel there, if there is one; vans that meet at a dock
# block each other, which costs the team a point. This small simulator stands for the real depot.
# It writes the log, and at the end it tells the truth about the policy; nothing in between knows
# it.

# %%
VANS = ("red", "green", "blue")
ORDERS = ("wait", "charge", "north", "south")
FULL, MINUTES = 3, 12


class Depot:
    """One shift: what the vans see, which orders they can follow, and what these earn."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.battery = {van: int(self.random.integers(1, FULL + 1)) for van in VANS}
        self.parcels = {"north": 2, "south": 2}

    def see(self):
        return {van: [self.battery[van], *self.parcels.values()] for van in VANS}

    def available(self):
        return {
            van: [1, int(charge < FULL), int(charge > 0), int(charge > 0)]
            for van, charge in self.battery.items()
        }

    def step(self, orders):
        reward = 0
        for van, order in orders.items():
            self.battery[van] = FULL if order == "charge" else self.battery[van]
            self.battery[van] -= order in self.parcels
        for dock, waiting in self.parcels.items():
            vans = list(orders.values()).count(dock)
            taken = int(vans == 1 and waiting > 0)
            reward += taken - (vans > 1)
            self.parcels[dock] = min(3, waiting - taken + int(self.random.random() < 0.8))
        return reward


# %% [markdown]
# Two crews took turns. Both share the docks out well, but not in the same way: one serves the
# north dock with the red van and lets the blue one charge, the other does the reverse. And
# everybody slips: a third of all orders are random. Nobody wrote down which crew was on duty.


# %%
def crew(depot, number, random, slips=0.35):
    free = [dock for dock, waiting in depot.parcels.items() if waiting]
    orders = {}
    for van in VANS if number == 0 else reversed(VANS):
        rest = "charge" if depot.battery[van] < FULL else "wait"
        orders[van] = free.pop(0) if depot.battery[van] and free else rest
    for van, mask in depot.available().items():
        if random.random() < slips:
            orders[van] = ORDERS[random.choice(np.flatnonzero(mask))]
    return orders


random = np.random.default_rng(0)
with open("deliveries.csv", "w", newline="") as file:
    log = csv.writer(file)
    masks = [f"can_{order}" for order in ORDERS]
    log.writerow(["shift", "minute", "van", "battery", "north", "south", *masks, "order", "points"])
    for shift in range(400):
        depot = Depot(shift)
        for minute in range(MINUTES):
            seen, available = depot.see(), depot.available()
            orders = crew(depot, shift % 2, random)
            points = depot.step(orders)
            for van in VANS:
                log.writerow([shift, minute, van, *seen[van], *available[van], orders[van], points])

with open("deliveries.csv") as file:
    print(*[next(file) for _ in range(7)], sep="", end="")

# %% [markdown]
# This is what somebody else's program would have left: one row per shift, minute and van.
#
# ## 2. Import and check
#
# Say once which column means what. The points are the team's: every van's row has the same
# number. The mask columns say which orders a van could follow; `action_names` says which id each
# order gets. [Your logs](../guides/your-logs.md) has other formats.

# %%
dataset = oryx.import_log(
    "deliveries.csv",
    "depot/first",
    episode="shift",
    step="minute",
    agent="van",
    observation=("battery", "north", "south"),
    action="order",
    action_names=ORDERS,
    action_mask=tuple(masks),
    reward="points",
)
logged = dataset.episode_returns
print(dataset)
print(f"a logged shift earns {logged.mean():.1f} points (standard deviation {logged.std():.1f})")

# %% [markdown]
# `oryx data check` looks for some forty kinds of [issue](../guides/inspect-data.md#check). There
# is no error here. The notes are right for this log: a shift ends by the clock, not because a
# task is done, and an empty van beside empty docks does see only zeros.


# %%
def command(*words):
    """What `oryx WORDS` prints in a terminal."""
    run = [sys.executable, "-m", "oryx_marl", *words]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


print(command("data", "check", "depot/first"))

# %% [markdown]
# ## 3. Train
#
# Oryx, and behaviour cloning (`bc`) beside it. There is no environment to score in, so a tenth of
# the shifts is held out: how often does the policy's likeliest order equal the logged one? With
# random slips no policy can be right each time, and a high accuracy says that the logs are
# imitated, not that they are surpassed.

# %%
settings = {"seeds": 1, "batch_size": 32, "progress": False}
run = oryx.train("oryx", dataset, updates=800, **settings)
clone = oryx.train("bc", dataset, updates=800, **settings)
for each in (run, clone):
    accuracy = each.held_out.action_accuracy.mean
    print(f"{each.folder.as_posix()}: action accuracy {accuracy:.2f} on held-out shifts")

# %% [markdown]
# ## 4. What is it worth?
#
# `oryx.trust` estimates from the logs alone what a policy would earn, and how far it leaves what
# was logged. Smaller [settings](../guides/trust.md) than the default keep this notebook short.

# %%
smaller = oryx.OpeSettings(clone_updates=300, critic_updates=200)
trusted = {
    each.folder.name: oryx.trust(each, act="greedy", settings=smaller, progress=False)
    for each in (run, clone)
}
for name, found in trusted.items():
    print(f"{name}: {found.verdict.text}")
    for reason in found.verdict.reasons[:2]:
        print(f"  - {reason}")

# %% [markdown]
# "By the critics alone" is a caution: importance sampling, which would have to confirm it, has
# too few logged shifts in which three vans happened to act like the policy. Where agents must
# remember, such estimates were [far too high](../guides/trust.md#how-far-to-believe-it). Without
# a simulator the next step would be a trial on a small, safe share of the shifts.
#
# This notebook has a simulator, so the estimates can be compared with the truth: 200 new shifts.


# %%
def drive(player, seeds):
    """Plays shifts; the points of each, and the orders of every minute."""
    points, orders = [], []
    for seed in seeds:
        depot, total = Depot(seed), 0
        player.reset()
        for _ in range(MINUTES):
            actions = player.act(depot.see(), action_mask=depot.available())
            orders.append([ORDERS[int(actions[van])] for van in VANS])
            total += depot.step(dict(zip(VANS, orders[-1], strict=True)))
        points.append(total)
    return np.array(points), orders


def blocked(orders):
    """Docks at which vans met, per shift."""
    met = [each.count(dock) > 1 for each in orders for dock in ("north", "south")]
    return sum(met) * MINUTES / len(orders)


crews = [[ORDERS[action] for action in actions] for actions in dataset.actions]
print(f"{'':18}  points  blocked docks  estimated points")
print(f"{'logs':18} {logged.mean():5.1f}       {blocked(crews):5.1f}")
for name, found in trusted.items():
    points, orders = drive(oryx.load(f"runs/{name}", act="greedy"), range(10_000, 10_200))
    error = 1.96 * points.std() / len(points) ** 0.5
    value = found.value
    print(
        f"{name:18} {points.mean():5.1f} ± {error:.1f} {blocked(orders):5.1f}"
        f"          {value.value:.1f} [{value.low:.1f}, {value.high:.1f}]"
    )

# %% [markdown]
# Oryx earns clearly more than the crews did: each van's order depends on those of the vans that
# choose before it, so that vans meet at a dock half as often as they did in the logs. Behaviour
# cloning chooses for each van by itself. Where the crews differ, its vans follow different crews:
# they meet more often than in the logs, though nothing is random any more, and earn less.
#
# The estimates rank the two policies rightly and are too high for both. For Oryx the truth lies in
# the interval. For behaviour cloning it does not, and the verdict was right to recommend nothing.
# Believe the order of such numbers more than the numbers.
#
# ## 5. Act
#
# `oryx.load` gives a player for a program with JAX. `greedy` takes the likeliest order; the
# default draws orders by their odds. `reset` begins the next shift.

# %%
player = oryx.load(run, act="greedy")
depot = Depot(seed=7)
actions = player.act(depot.see(), action_mask=depot.available())
print(depot.see())
print({van: player.action_names[int(action)] for van, action in actions.items()})

# %% [markdown]
# ## 6. Export
#
# An ONNX file runs without JAX, here with `oryx_marl_runtime`, which needs numpy and onnxruntime
# alone. It gives the same orders. [Export a policy](../guides/export.md) has the files and their
# contract.

# %%
folder = oryx.export(run)
print(sorted(path.name for path in folder.iterdir()))

FEW_SHIFTS = range(20_000, 20_010)
_, expected = drive(player, FEW_SHIFTS)
_, exported = drive(oryx_marl_runtime.load(folder, act="greedy"), FEW_SHIFTS)
same = sum(ours == theirs for ours, theirs in zip(expected, exported, strict=True))
print(f"ONNX: the same orders in {same} of {len(expected)} minutes")

# %% [markdown]
# ## 7. Serve
#
# In a terminal this is `oryx serve runs/oryx-depot-first`. Port 0 takes a free one, and clients
# must know the token. The client needs the standard library alone. [Serve a
# policy](../guides/serve.md) has limits, sessions and what survives a restart.

# %%
token = secrets.token_hex(32)
server = subprocess.Popen(
    [sys.executable, "-m", "oryx_marl", "serve", str(run.folder), "--port", "0"],
    env={**os.environ, "ORYX_SERVE_TOKEN": token},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
)
try:
    url = re.search(r"http://[\d.:]+", server.stdout.readline())[0]
    with oryx_marl_runtime.connect(url, token=token, act="greedy") as remote:
        _, served = drive(remote, FEW_SHIFTS)
finally:
    server.terminate()
    server.communicate(timeout=60)
same = sum(ours == theirs for ours, theirs in zip(expected, served, strict=True))
print(f"served: the same orders in {same} of {len(expected)} minutes")
print(f"the server has stopped with exit code {server.returncode}")

# %% [markdown]
# ## Next
#
# Put your own table in place of `deliveries.csv`, train for longer (`updates=5_000` and three
# seeds, which ends with an estimate of `oryx.trust` at its full settings), and read [which
# algorithm to choose](../guides/choosing.md). If you have a simulator, [score the policy in
# it](../guides/your-environment.md).
