"""The catalogue of the hub is complete, and invents nothing."""

import json

import pytest
from rich.console import Console

from oryx_marl.bench import published
from oryx_marl.cli import hub as cli_hub
from oryx_marl.cli import main as cli
from oryx_marl.data import catalog
from oryx_marl.data.hub import archives as hub
from oryx_marl.errors import OryxError


def test_all_archives_and_all_cards():
    assert len(hub.archives()) == 39
    assert len(hub.cards()) == 84
    names = [hub.dataset_name(card) for card in hub.cards()]
    assert len(set(names)) == 84
    assert sum(len(archive.cards()) for archive in hub.archives().values()) == 84


def test_all_datasets_of_the_paper_are_there_by_name():
    wanted = {
        (score.source, score.environment, score.scenario, score.dataset)
        for score in published.scores()
        if score.source
    }
    assert len(wanted) == 65
    offered = {
        (archive.source, archive.env, archive.paper_scenario, card["dataset"])
        for archive in hub.archives().values()
        if archive.paper_scenario
        for card in archive.cards()
    }
    assert offered == wanted


def test_what_nobody_knows_is_unknown():
    for archive in hub.archives().values():
        assert {archive.revision, archive.sha256, archive.licence} == {"unknown"}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("og_marl-smac_v1-3m/Good", "core/smac_v1/3m.zip"),
        ("og_marl-flatland-20_trains", "core/flatland/20_trains.zip"),
        ("alberdice-rware-tiny-2ag/Expert", "prior_work/alberdice/rware/tiny-2ag.zip"),
        ("omiga-mamujoco-2ant", "prior_work/omiga/mamujoco/2ant.zip"),
    ],
)
def test_addresses(name, path, monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    archive, _ = hub.find(name)
    root = "https://huggingface.co/datasets/InstaDeepAI/og-marl/resolve/main/"
    assert archive.url("main") == root + path


def test_names_that_are_wrong(tmp_path):
    with pytest.raises(OryxError, match="Do you mean og_marl-smac_v1-3m"):
        hub.find("3m/Good")
    with pytest.raises(OryxError, match="has no dataset 'Goood'; it has: Poor, Medium, Good"):
        hub.find("og_marl-smac_v1-3m/Goood")
    with pytest.raises(OryxError, match="oryx data download og_marl-smac_v1-3m/Good"):
        catalog.open("og_marl-smac_v1-3m/Good", tmp_path)


def test_the_list(capsys, monkeypatch):
    cli.main(["data", "list", "--remote", "--json"])
    entries = json.loads(capsys.readouterr().out)
    assert len(entries) == 84 + 9
    assert sum(entry["in_paper"] for entry in entries) == 65
    one = next(entry for entry in entries if entry["name"] == "omiga-mamujoco-3hopper/Expert")
    assert (one["transitions"], one["mean_return"], one["joint_saco"]) == (1000391, 2452.0164, 1.0)
    assert (one["num_agents"], one["actions_shape"], one["has_truncations"]) == (3, [3, 1], True)
    assert (one["paper_scenario"], one["revision"]) == ("3x1_hopper", "unknown")
    monkeypatch.setattr(cli_hub, "console", Console(width=80))
    cli.main(["data", "list", "--remote"])
    shown = capsys.readouterr().out
    assert "…" not in shown  # nothing is cut at 80 columns
    line = next(line for line in shown.splitlines() if line.startswith(one["name"]))
    assert line.split() == [one["name"], "yes", "3", "1", "1M", "2452"]
    told = " ".join(shown.split())
    assert "39 archives; of 84 datasets the cards are known, 65 are in the paper" in told
