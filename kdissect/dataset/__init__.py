"""Datasets: tables that grow by captures, as Delta tables; without Spark."""
