import xml.etree.ElementTree as ElementTree

from benchmarks import chart, page, results
from benchmarks.chart import Panel

WHERE = {
    "date": "2026-11-21", "revision": "abc", "python": "3.11.7", "tshark": "4.0.17", "cores": 2,
    "processor": "a processor", "load": 0.1, "kdissect": "kdissect 0.1.0 (compiled)",
}  # fmt: skip


def figures(cpu_seconds, rows=None):
    return {
        "seconds": cpu_seconds, "fastest": cpu_seconds, "slowest": cpu_seconds + 1,
        "cpu_seconds": cpu_seconds, "peak_bytes": 90_000_000, "rows": rows or {}, "runs": 1,
    }  # fmt: skip


def small(load=0.1):
    return {
        "bytes": 300_000_000, "tables": "exchanges", "target": 25.0,
        "rate": ["exchanges", "300 000/s"], "circumstances": WHERE | {"load": load},
        "programs": {
            "tshark": figures(30.0), "plain": figures(10.0),
            "compiled": figures(1.0, {"exchanges": 350_000}) | {"start_up": 0.25},
        },
    }  # fmt: skip


def test_docs_show_the_latest_measurements():
    kept = results.read()
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.printed(text, kept) == text
    assert page.CHART.read_text(encoding="utf-8") == chart.drawn(page.panels(kept))


def test_targets_are_listed_with_reached_and_missed():
    point = {"bytes": page.LARGEST, "programs": {"compiled": figures(9.0)}}
    kept = {
        "workloads": {"small": small()},
        "start_up": {"--help": figures(0.2), "quickstart": figures(0.5)},
        "scaling": {"size": [point]},
    }
    assert page.targets(kept)[2:] == [
        "| small | 25x tshark | 30.0x tshark | reached |",
        "| small, plain Python | 4x tshark | 3.0x tshark | **missed** |",
        "| small, for orientation | 300 000/s | 350 000/s | |",
        "| start-up: `kdissect --help` | under 150 ms | 200 ms | **missed** |",
        "| start-up: `kdissect quickstart` | under 1000 ms | 500 ms | reached |",
        "| peak memory, 10 GB of bulk | under 500 MB | 90 MB | reached |",
    ]


def test_peers_are_listed_with_rates_ratios_and_memory():
    assert page.peers({"workloads": {"small": small()}})[2:] == [
        "| small, 300 MB | tshark | 30.00 s |  | 10 |  |  | 1.0 | 30.00-31.00 s | 90 MB |",
        "|  | kdissect, plain Python | 10.00 s |  | 30 |  |  | 3.0 | 10.00-11.00 s | 90 MB |",
        "|  | kdissect | 1.00 s | 0.25 s | 300 | 400 | 350 000 exchanges | 30.0 | 1.00-2.00 s "
        "| 90 MB |",
        "",
        "Measured on 2026-11-21, revision abc, Python 3.11.7, tshark 4.0.17; "
        "one core of 2, a processor.",
    ]


def test_two_processes_stand_beside_one_by_the_clock():
    bulk, little = (
        {
            "bytes": size, "target": target, "circumstances": WHERE,
            "programs": {"1": figures(2.0), "2": figures(seconds)},
        }
        for size, target, seconds in ((3_000_000_000, 1.8, 1.25), (20_000_000, 1.0, 2.2))
    )  # fmt: skip
    kept = {"jobs": {"small, a little": little, "bulk": bulk}}
    assert page.targets(kept)[2:] == [
        "| bulk, `--jobs 2`, elapsed | 1.8x `--jobs 1` | 1.60x | **missed** |",
        "| small, a little, `--jobs 2`, elapsed | 1.0x `--jobs 1` | 0.91x | **missed** |",
    ]
    assert page.jobs(kept)[2:] == [
        "| bulk, 3 000 MB | 2.00 s | 1.25 s | 1.60 | 2.00 s, 1.25 s | 90 MB, 90 MB |",
        "| small, a little, 20 MB | 2.00 s | 2.20 s | 0.91 | 2.00 s, 2.20 s | 90 MB, 90 MB |",
        "",
        "Measured on 2026-11-21, revision abc, Python 3.11.7, tshark 4.0.17; "
        "all cores of 2, a processor.",
    ]


def test_a_busy_machine_is_reported():
    last = page.peers({"workloads": {"small": small(load=7.5)}})[-1]
    told = " **The machine was busy** (load 7.5): the numbers are preliminary."
    assert last.endswith(told)
    # The load is that of the minute before, so what others used meanwhile counts where it is known.
    quiet = small(load=7.5)
    quiet["circumstances"]["others"] = 0.02
    assert page.peers({"workloads": {"small": quiet}})[-1].endswith("a processor.")
    quiet["circumstances"]["others"] = 0.3
    last = page.peers({"workloads": {"small": quiet, "bulk": small()}})[-1]
    assert last.endswith("(other processes used 0.30 cores): the numbers are preliminary.")


def test_profiles_show_the_floor_and_the_distance_to_it():
    one = {
        "shares": {"packets": 60.0, "tables": 40.0}, "seconds": 2.0, "start_up": 0.5,
        "circumstances": WHERE,
        "floor": {"reading": 0.3, "copying": 0.1, "unpacking": 0.1},
    }  # fmt: skip
    assert page.profiles({"profiles": {"bulk": one}})[:-2] == [
        "| | bulk |", "|---|---|", "| packets | 60.0 % |", "| tables | 40.0 % |",
        "| CPU time | 2.00 s |", "| of it start-up | 0.50 s |",
        "| floor: reading | 0.30 s |", "| floor: copying | 0.10 s |",
        "| floor: unpacking | 0.10 s |", "| times the floor, without start-up | 3.0 |",
    ]  # fmt: skip


def test_only_the_text_between_the_marks_is_written_anew():
    text = "above\n<!-- peers: start -->\nold\n<!-- peers: stop -->\nbelow\n"
    new = page.between(text, "peers", ["| row |"])
    assert new == "above\n<!-- peers: start -->\n\n| row |\n\n<!-- peers: stop -->\nbelow\n"
    assert page.between(new, "peers", ["| row |"]) == new


def test_a_chart_places_points_on_logarithmic_axes():
    panel = Panel("t", "x", "y", {"one": [(10.0, 1.0), (1000.0, 100.0)]})
    tree = ElementTree.fromstring(chart.drawn([panel]))  # noqa: S314 - written here
    circles = [
        (float(one.get("cx")), float(one.get("cy")))
        for one in tree.iter("{http://www.w3.org/2000/svg}circle")
    ]
    assert circles == [
        (chart.LEFT, chart.HEIGHT - chart.BOTTOM), (chart.WIDTH - chart.RIGHT, chart.TOP),
    ]  # fmt: skip


def test_axes_reach_from_the_power_of_ten_below_to_the_one_above():
    assert chart.decades([100.0, 10_000.0]) == (2, 4)
    assert chart.decades([0.3, 25.0]) == (-1, 2)
    assert chart.decades([10.0]) == (1, 2)
