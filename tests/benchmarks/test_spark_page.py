from benchmarks import chart, spark_page
from tests.benchmarks.test_page import WHERE


def rate(seconds, spark_seconds, boundary_bytes=10_000_000):
    return {
        "bytes": 2_000_000_000, "files": 8, "splits": 8, "boundary_bytes": boundary_bytes,
        "row_bytes": 300_000_000, "rounds": 3, "session": 5.0, "begun": 9.0,
        "jobs": {"seconds": seconds, "cpu_seconds": 16.0},
        "spark": {"seconds": spark_seconds, "cpu_seconds": 20.0},
        "later": {"seconds": spark_seconds / 1.25, "cpu_seconds": 16.0},
    }  # fmt: skip


def found(section, values):
    return {section: {"found": values, "circumstances": WHERE}}


KEPT = found("rates", {"small": rate(10.0, 12.5), "bulk": rate(2.0, 4.0, 30_000_000)})
MEASURED = "Measured on 2026-11-21, revision abc, Python 3.11.7; 2 cores, a processor."


def test_docs_show_the_latest_measurements():
    kept = spark_page.read()
    text = spark_page.PAGE.read_text(encoding="utf-8")
    assert spark_page.printed(text, kept) == text
    assert spark_page.CHART.read_text(encoding="utf-8") == chart.drawn(spark_page.panels(kept))


def test_the_pipeline_stands_beside_two_processes():
    assert spark_page.rates(KEPT)[2:] == [
        "| small, 2 000 MB in 8 files | 10.0 s | first | 12.5 s | 80 % | 80 % | reached |",
        "| small, 2 000 MB in 8 files | 10.0 s | second | 10.0 s | 100 % | 100 % | reached |",
        "| bulk, 2 000 MB in 8 files | 2.0 s | first | 4.0 s | 50 % | 80 % | **missed** |",
        "| bulk, 2 000 MB in 8 files | 2.0 s | second | 3.2 s | 62 % | 100 % | **missed** |",
        "",
        MEASURED,
    ]


def test_boundary_states_are_a_share_of_the_captures():
    assert spark_page.boundaries(KEPT)[2:] == [
        "| small | 8 | 10.0 MB | 0.50% | reached | 300 MB |",
        "| bulk | 8 | 30.0 MB | 1.50% | **missed** | 300 MB |",
    ]


def test_batches_keep_up_or_do_not():
    seconds = [9.0, *[1.5] * 18, 1.75]
    one = {"bytes": [100_000_000] * 20, "seconds": seconds, "cpu_seconds": [2.5] * 20}
    kept = found("batches", {"small": one})
    assert spark_page.batches(kept)[2:] == [
        "| small | 9.0 s | 1.5 s | 1.5 s | 1.8 s | 1.5 s | 2.5 s | 2.0 s | reached |",
        "",
        MEASURED,
    ]


def test_questions_stand_beside_each_other():
    duckdb = {"seconds": 2.0, "cpu_seconds": 3.0, "rows": 1200, "shuffled": 0}
    spark = {"seconds": 11.0, "cpu_seconds": 11.5, "rows": 1200, "shuffled": 0}
    slow = {**spark, "seconds": 11.1}
    sql = {"seconds": 20.0, "cpu_seconds": 39.0, "rows": 1200, "shuffled": 2_500_000}
    quick = {**sql, "cpu_seconds": 9.0}
    questions = {
        "lag": {"duckdb": duckdb, "spark": spark, "sql": sql},
        "acks": {"duckdb": duckdb, "spark": slow, "sql": quick},
    }
    one = {"bytes": 114_000_000, "jvm": 900_000_000, "questions": questions}
    kept = found("questions", {**one, "capture_bytes": 500_000_000})
    assert spark_page.questions(kept)[0].startswith("A capture of 500 MB, a dataset of 114 MB;")
    assert spark_page.questions(kept)[4:] == [
        "| `lag` | 1 200 | 2.0 s | 3.0 s | 11.0 s | 11.5 s | reached | 20.0 s | 39.0 s | 2.5 MB |",
        "| `acks` | 1 200 | 2.0 s | 3.0 s | 11.1 s | 11.5 s | **missed** "
        "| 20.0 s | 9.0 s | 2.5 MB |",
        "",
        "Spark SQL takes 8 times the CPU time of DuckDB in the median, 3 to 13 times.",
        "",
        MEASURED,
    ]


def test_extrapolation_multiplies_the_measurements():
    assert spark_page.reckoning(KEPT) == [
        "| | small | bulk |",
        "|---|---|---|",
        "| CPU for 1 GB | 10.0 s | 10.0 s |",
        "| 1 TB a day: CPU | 2.8 h | 2.8 h |",
        "| of it, cores that are busy all day | 0.12 | 0.12 |",
        "| on 8 cores, done in | 21 min | 21 min |",
        "| boundary states a day | 5.0 GB | 15.0 GB |",
        "| 100 brokers with 10 MB/s each, 86 TB a day: cores | 10 | 10 |",
    ]


def test_a_busy_machine_is_reported():
    busy = found("scaling", {"files": [], "connections": []})
    busy["scaling"]["circumstances"] = WHERE | {"load": 7.5}
    told = " **The machine was busy** (load 7.5): the numbers are preliminary."
    assert spark_page.scaling(busy)[-1] == MEASURED + told


def test_a_chart_has_a_line_for_each_number_of_cores():
    points = [
        {"bytes": 1, "seconds": seconds, "cpu_seconds": 1.0, "boundary_bytes": 0, "cores": cores,
         "files": files}
        for files, cores, seconds in ((2, 1, 4.0), (2, 2, 2.0), (8, 1, 5.0), (8, 2, 3.0))
    ]  # fmt: skip
    (panel,) = spark_page.panels(found("scaling", {"files": points}))
    assert panel.lines == {
        "local[1]": [(2.0, 4.0), (8.0, 5.0)],
        "local[2]": [(2.0, 2.0), (8.0, 3.0)],
    }
