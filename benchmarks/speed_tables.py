"""The tables of speed in the documents from what is in results/speed/.

python benchmarks/speed_tables.py
"""

import json
from pathlib import Path
from typing import Any

from documents import fill

PUBLISHED = {2: 1.08, 10: 3.92, 23: 8.28, 50: 20.6}
"""Milliseconds per update of the published code, one seed, on an H200."""
GOAL = {2: 0.40, 10: 1.2, 23: 2.2, 50: 4.0}


def tables(folder: Path) -> dict[str, str]:
    """Every generated table by the name of its marker."""
    return {
        "speed_update": _update(_read(folder, "update-nvidia-h200")),
        "speed_acting": _acting(_read(folder, "acting-nvidia-h200")),
        "speed_cpu": _cpu(_read(folder, "update-cpu")),
        "speed_versions": _versions(_read(folder, "versions-nvidia-h200")),
        "speed_export": _export(_read(folder, "export-cpu")),
        "speed_serve": _serve(_read(folder, "serve-cpu")),
    }


def _read(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _update(record: dict[str, Any]) -> str:
    """Agents down; one and ten seeds, both precisions."""
    found = {
        (row["num_agents"], row["num_seeds"], row["precision"]): row
        for row in record["rows"]
        if row["sequence_length"] == 20
    }
    rows = []
    for agents in sorted({key[0] for key in found}):
        line = [str(agents), _number(PUBLISHED.get(agents)), _number(GOAL.get(agents))]
        for seeds in (1, 10):
            for precision in ("float32", "bfloat16"):
                row = found.get((agents, seeds, precision), {})
                line.append(_number(row.get("ms_per_update")))
        best = found[agents, 1, "bfloat16"]
        line += [
            _number(best["peak_gigabytes_beside_data"]),
            f"{best['share_of_product_gigaflop_per_second']:.0%}",
            f"{best['share_of_copy_gigabytes_per_second']:.0%}",
            f"{best['compile_seconds']:.0f}",
        ]
        rows.append(line)
    header = ["N", "published", "goal", "float32", "bfloat16", "float32, ten seeds"]
    header += ["bfloat16, ten seeds", "GB", "of products", "of copying", "compiling, s"]
    growth = record["exponents"]["bfloat16"]
    product = record["product_gigaflop_per_second"] / 1000
    copy = record["copy_gigabytes_per_second"] / 1000
    return (
        f"{_table(header, rows)}\n\n"
        f"In the same run a large product reached {product:.0f} TFLOP/s, a copy {copy:.1f} TB/s. "
        f"From 50 to 1000 agents times grow as N^{growth['in_agents']:.2f}, from 20 to 40 steps at "
        f"ten agents as T^{growth['in_steps']:.2f} (bfloat16, one seed)."
    )


def _acting(record: dict[str, Any]) -> str:
    found = {(row["num_agents"], row["num_envs"]): row for row in record["rows"]}
    rows = []
    for agents in sorted({key[0] for key in found}):
        line = [str(agents)]
        for envs in (1, 64, 1024):
            row = found[agents, envs]
            rate = row["agent_steps_per_second"] / 1e6
            line.append(f"{row['ms_per_step']:.2f} ms, {rate:.2f}")
        rows.append(line)
    return _table(["N", "1 environment", "64", "1024"], rows)


def _cpu(record: dict[str, Any]) -> str:
    rows = [
        [
            str(row["num_agents"]),
            f"{row['ms_per_update']:.1f}",
            " to ".join(f"{ms:.1f}" for ms in row["spread_ms"]),
            f"{row['gigaflop_per_second']:.0f}",
            f"{record['product_gigaflop_per_second']:.0f}",
        ]
        for row in record["rows"]
    ]
    header = ["N", "ms per update", "of five", "GFLOP/s", "GFLOP/s of 12800x128x128"]
    return _table(header, rows)


def _versions(record: dict[str, Any]) -> str:
    columns = [(2, 1), (2, 10), (10, 1), (23, 1), (50, 1), (50, 10)]
    names = [f"N = {agents}{', ten seeds' if seeds > 1 else ''}" for agents, seeds in columns]
    rows = []
    for version in dict.fromkeys(row["version"] for row in record["rows"]):
        found = {
            (row["num_agents"], row["num_seeds"]): row["ms_per_update"]
            for row in record["rows"]
            if row["version"] == version
        }
        rows.append([version, *(_number(found.get(column)) for column in columns)])
    return _table(["ms per update", *names], rows)


def _export(record: dict[str, Any]) -> str:
    ways = {"player": "player", "stablehlo": "StableHLO", "runtime": "runtime", "onnx": "ONNX"}
    rows = [
        [
            row["algorithm"],
            str(row["num_agents"]),
            *(f"{row[f'{way}_p50']:.2f} / {row[f'{way}_p99']:.2f}" for way in ways),
        ]
        for row in record["rows"]
    ]
    return _table(["algorithm", "agents", *ways.values()], rows)


def _serve(record: dict[str, Any]) -> str:
    statuses = ", ".join(
        f"{count:,} with status {code}" for code, count in record["statuses"].items()
    )
    rows = [
        ["answers", statuses],
        ["errors of requests or sockets", str(record["errors"])],
        ["requests per second", f"{record['requests_per_second']:,.0f}"],
        ["latency, p50", f"{record['p50_ms']:.0f} ms"],
        ["latency, p99", f"{record['p99_ms']:.0f} ms"],
        ["requests in a batch, mean", f"{record['mean_batch']:.0f}"],
        ["resident memory after ten seconds", f"{record['resident_start_mb']:.0f} MB"],
        ["resident memory at the end", f"{record['resident_end_mb']:.0f} MB"],
    ]
    about = f"{record['sessions']:,} sessions for {record['duration']} seconds"
    return _table(["", about], rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    fill(tables(Path("results/speed")))


if __name__ == "__main__":
    main()
